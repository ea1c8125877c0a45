"""What computes the steps of an LM that runs here."""

from typing import Literal

Runtime = Literal["auto", "torch", "openvino"]
