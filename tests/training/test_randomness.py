import torch

from lexergy.training.randomness import batch_indices, example_uniforms, seeded_dropout, step_generator


def test_each_epoch_shows_every_example_once_in_a_new_order():
    stream = torch.cat([batch_indices(7, step, size=4, num_examples=6) for step in range(6)])  # four epochs
    epochs = stream.view(4, 6)
    assert torch.equal(epochs.sort(dim=1).values, torch.arange(6).expand(4, -1))
    assert len({tuple(epoch) for epoch in epochs.tolist()}) > 1


def test_a_batch_depends_on_seed_and_step_alone():
    again = batch_indices(7, 5, size=4, num_examples=6)
    assert torch.equal(again, batch_indices(7, 5, size=4, num_examples=6))
    whole = torch.cat([batch_indices(7, step, size=2, num_examples=6) for step in (10, 11)])
    assert torch.equal(again, whole)
    assert not torch.equal(batch_indices(7, 0, 50, 50), batch_indices(8, 0, 50, 50))


def test_a_batch_may_be_larger_than_the_data():
    assert batch_indices(0, 0, size=7, num_examples=3)[:6].bincount().tolist() == [2, 2, 2]


def test_numbers_of_an_example_do_not_depend_on_its_batch():
    indices = torch.tensor([4, 0, 9, 2])
    whole = example_uniforms(step_generator(1, 2), indices, 3)
    parts = [example_uniforms(step_generator(1, 2), part, 3) for part in indices.split(2)]
    assert torch.equal(whole, torch.cat(parts))
    assert not torch.equal(whole, example_uniforms(step_generator(1, 3), indices, 3))


def test_dropout_is_repeatable_and_leaves_the_global_generator_alone():
    before = torch.get_rng_state()
    draws = []
    for counter in (0, 0, 1):
        with seeded_dropout(5, torch.device("cpu"), counter):
            draws.append(torch.rand(4))
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])
    assert torch.equal(torch.get_rng_state(), before)


def test_lengths_in_a_batch_are_alike_and_each_epoch_is_still_whole():
    lengths = torch.randint(1, 41, (1003,), generator=torch.Generator().manual_seed(0))
    batches = [batch_indices(7, step, 16, len(lengths), lengths) for step in range(63 * 3)]
    epochs = torch.cat(batches)[: 3 * 1003].view(3, 1003)
    assert torch.equal(epochs.sort(dim=1).values, torch.arange(1003).expand(3, -1))
    spreads = torch.tensor([float(lengths[batch].max() - lengths[batch].min()) for batch in batches])
    assert (spreads > 3).sum() <= 3, "more than the batch at an epoch's end is mixed"
    means = torch.tensor([float(lengths[batch].double().mean()) for batch in batches[:62]])
    assert torch.corrcoef(torch.stack([means[:-1], means[1:]]))[0, 1].abs() < 0.4, "batches come in order of length"


def test_grouped_batches_larger_than_the_data_are_whole_epochs():
    lengths = torch.tensor([3, 1, 2])
    assert batch_indices(0, 0, 7, 3, lengths)[:6].bincount().tolist() == [2, 2, 2]
