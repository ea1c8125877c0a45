"""The one exception for mistakes in an input: what was given, what is expected, the remedy."""


class LexergyError(ValueError):
    """A mistake that the user can mend; the command line prints it without a traceback.

    Examples:
        >>> from lexergy import LexergyError, ResidualRecipe, load_recipe
        >>> try:
        ...     load_recipe("quikstart", ResidualRecipe)
        ... except LexergyError as error:
        ...     print(str(error).split(";")[0])
        no recipe `quikstart`
    """
