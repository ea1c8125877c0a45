"""Networks that are sent to another process record their states there as they do here."""

import pytest
import torch
from transformers.utils import output_capturing

from lexergy.models.causal.lm import CausalLM
from lexergy.runs.transport import from_bytes, to_bytes

cloudpickle = pytest.importorskip("cloudpickle")


@pytest.mark.parametrize("used", [False, True])
def test_a_sent_model_records_its_states(word_lm_folder, monkeypatch, used):
    lm = CausalLM.from_pretrained(word_lm_folder)
    tokens = torch.tensor([[1, 2, 3]])

    def states(model):
        recorded = model(tokens, output_hidden_states=True).hidden_states
        return torch.stack(recorded)

    if used:  # its hooks are in place
        states(lm.model)
    content = to_bytes(lm.model, cloudpickle.CloudPickler)
    expected = states(lm.model)
    monkeypatch.setattr(output_capturing, "_CAN_RECORD_REGISTRY", {})  # as in a new process
    assert torch.equal(states(from_bytes(content)), expected)
