"""People as judges: which of two continuations is better (Table 2, Figure 4, App. A.4, Deng et al. 2020)."""
