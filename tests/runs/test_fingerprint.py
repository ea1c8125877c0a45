from lexergy.runs.fingerprint import fingerprint


def test_a_changed_file_is_noticed_whatever_precision_the_source_names(tmp_path):
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(b"one")
    usual, other = fingerprint(str(tmp_path)), fingerprint(f"{tmp_path}#precision=bfloat16")
    assert None not in (usual, other)
    assert usual != other  # another LM, of whose scores none are kept under the same name
    weights.write_bytes(b"two")
    assert usual != fingerprint(str(tmp_path))
    assert other != fingerprint(f"{tmp_path}#precision=bfloat16")


def test_a_name_has_no_content():
    assert fingerprint("smollm2-135m") is fingerprint("smollm2-135m#precision=bfloat16") is None
