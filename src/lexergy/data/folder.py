"""Files that recipes name without saying where a machine keeps them: `data:wikitext2/train.txt`."""

import os
from pathlib import Path

from lexergy.errors import LexergyError
from lexergy.storage import fetched

VARIABLE = "LEXERGY_DATA"
PREFIX = "data:"
ORIGINS = {
    "wikitext2": "WikiText-2 is `Salesforce/wikitext` on the Hugging Face Hub, configuration wikitext-2-v1",
    "cmudict-0.7b": "the CMU Pronouncing Dictionary 0.7b is at http://www.speech.cs.cmu.edu/cgi-bin/cmudict",
    "tatoeba_de_en": "Tatoeba's pairs, English, a tab, German, are at https://www.manythings.org/anki (deu-eng.zip)",
    "ud_ewt": "UD English-EWT is at https://github.com/UniversalDependencies/UD_English-EWT",
    "wmt14-de-en.tsv": "WMT'14 is `wmt/wmt14` on the Hugging Face Hub, configuration de-en: German, a tab, English",
    "ccgbank": "CCGbank is LDC2005T13 at https://catalog.ldc.upenn.edu",
    "conll2003-german": "CoNLL-2003's German part is built from the ECI corpus: https://www.cnts.ua.ac.be/conll2003/ner",
    "iwslt14-de-en": "IWSLT'14's TED talks, German-English, are at https://wit3.fbk.eu",
}
"""Where to get what the packaged recipes read."""


def locate(source: str | Path) -> Path:
    """The path that a source names: one below the folder `$LEXERGY_DATA` when it begins with `data:`.

    What a source such as `s3://bucket/texts` names is fetched.
    """
    if not str(source).startswith(PREFIX):
        return fetched(source).expanduser()
    name = str(source).removeprefix(PREFIX)
    folder = os.environ.get(VARIABLE)
    origin = ORIGINS.get(name.split("/")[0])
    hint = f"; {origin}" if origin else ""
    if not folder:
        raise LexergyError(f"`{source}` is in the data folder: set {VARIABLE} to the folder that holds `{name}`{hint}.")
    path = Path(folder).expanduser() / name
    if not path.exists():
        raise LexergyError(
            f"`{source}` is not in {folder}; put it there, or set {VARIABLE} to the folder that holds it{hint}."
        )
    return path
