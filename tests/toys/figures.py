"""What can be seen on a figure."""

from matplotlib.colors import to_hex


def legend(axes) -> dict[str, str]:
    """Which colour stands for what, in the order of the legend."""
    shown = axes.get_legend()
    colours = [to_hex(_colour(handle)) for handle in shown.legend_handles]
    return dict(zip((text.get_text() for text in shown.get_texts()), colours, strict=True))


def lines(axes) -> dict[str, list[tuple[float, float]]]:
    """The points of every line that has a name."""
    return {
        line.get_label(): list(map(tuple, line.get_xydata().tolist()))
        for line in axes.lines
        if not line.get_label().startswith("_")
    }


def _colour(handle):
    return handle.get_color() if hasattr(handle, "get_color") else handle.get_facecolor()
