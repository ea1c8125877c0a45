"""Why linear layers compute `(W x^T)^T` here: the rate of both orders of an fp32 product, in GFLOP/s."""

import torch
from timing import median_seconds

SHAPES = ((576, 576), (576, 1536), (1536, 576), (576, 49152))  # in, out: the layers of SmolLM2-135M


@torch.inference_mode()
def main() -> None:
    print("rows  in -> out        x W^T   (W x^T)^T   GFLOP/s")
    for rows in (64, 256):
        for width_in, width_out in SHAPES:
            states, weight = torch.randn(rows, width_in), torch.randn(width_out, width_in)
            usual = median_seconds(lambda x=states, w=weight: torch.nn.functional.linear(x, w), 9)
            turned = median_seconds(lambda x=states, w=weight: w @ x.t(), 9)
            work = 2 * rows * width_in * width_out / 1e9
            print(f"{rows:4d}  {width_in:4d} -> {width_out:5d}   {work / usual:8.0f}   {work / turned:9.0f}")


if __name__ == "__main__":
    main()
