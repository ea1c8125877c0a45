"""The rate of single matrix products in GFLOP/s, of the shapes of SmolLM2-135M: torch in both orders, and OpenVINO.

It tells why linear layers compute as they do (`models.inference.linears`), and of what a sampler's step is a share.
"""

from typing import Any

import torch
from timing import median_seconds

SHAPES = ((576, 960), (576, 576), (576, 1536), (1536, 576), (576, 49152))  # in, out
HINTS = ("f32", "bf16")


@torch.inference_mode()
def main() -> None:
    print("rows  in -> out        x W^T   (W x^T)^T   OpenVINO float32   bfloat16   GFLOP/s")
    for rows in (64, 256):
        for width_in, width_out in SHAPES:
            states, weight = torch.randn(rows, width_in), torch.randn(width_out, width_in)
            usual = median_seconds(lambda x=states, w=weight: torch.nn.functional.linear(x, w), 9)
            turned = median_seconds(lambda x=states, w=weight: w @ x.t(), 9)
            compiled = [median_seconds(_product(states, weight, hint).infer, 25) for hint in HINTS]
            work = 2 * rows * width_in * width_out / 1e9
            rates = "   ".join(f"{work / own:10.0f}" for own in (usual, turned, *compiled))
            print(f"{rows:4d}  {width_in:4d} -> {width_out:5d}   {rates}")


def _product(states: torch.Tensor, weight: torch.Tensor, hint: str) -> Any:
    import openvino as ov
    from openvino import opset15 as ops

    given = ops.parameter([-1, states.shape[1]], ov.Type.f32)
    graph = ov.Model([ops.matmul(given, ops.constant(weight.numpy()), False, True)], [given], "product")
    settings = {"INFERENCE_PRECISION_HINT": hint, "INFERENCE_NUM_THREADS": torch.get_num_threads()}
    request = ov.Core().compile_model(graph, "CPU", {**settings, "ENABLE_CPU_PINNING": False}).create_infer_request()
    request.set_input_tensor(0, ov.Tensor(states.numpy()))
    return request


if __name__ == "__main__":
    main()
