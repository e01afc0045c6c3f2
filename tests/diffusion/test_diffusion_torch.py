"""The array helpers with torch tensors: same numbers, same device, gradients where they make sense."""

import math

import numpy as np
import pytest
from firelu.diffusion import (
    StepRangeError,
    extract_into_tensor,
    make_ddim_sampling_parameters,
    mean_flat,
    noise_like,
    timestep_embedding,
)

torch = pytest.importorskip("torch", reason="the torch half of the diffusion helpers needs torch")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64])
@pytest.mark.parametrize("dim", [1, 5, 320])
def test_embedding_agrees_with_numpy(dtype, dim):
    steps = torch.tensor([0, 3, 500, 999], dtype=dtype)
    embedding = timestep_embedding(steps, dim)
    expected = timestep_embedding(steps.numpy(), dim)
    assert embedding.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    np.testing.assert_allclose(embedding, expected, atol=1e-12 if dtype == torch.float64 else 2e-4)


def test_embedding_is_the_well_known_one_bit_for_bit():
    steps, half = torch.tensor([0.0, 17.5, 999.0]), 160
    frequencies = torch.exp(-math.log(10000) * torch.arange(half, dtype=torch.float32) / half)
    angles = steps[:, None] * frequencies
    assert torch.equal(timestep_embedding(steps, 320), torch.cat([angles.cos(), angles.sin()], dim=-1))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_steps_lose_nothing(dtype):
    steps = torch.tensor([1, 250, 996])  # bfloat16 holds all three
    exact = timestep_embedding(steps, 32)
    assert torch.equal(timestep_embedding(steps.to(dtype), 32), exact)
    assert torch.equal(timestep_embedding(steps.to(dtype), 32, dtype=dtype), exact.to(dtype))
    # What computing in the half type would cost.
    angles = steps.to(dtype)[:, None] * torch.logspace(0, -4, 17, dtype=dtype)[None, :16]
    assert (angles.cos().float() - exact[:, :16]).abs().max() > 0.05


def test_repeat_only():
    steps = torch.tensor([3, 8])
    repeated = timestep_embedding(steps, 3, repeat_only=True)
    assert torch.equal(repeated, torch.tensor([[3, 3, 3], [8, 8, 8]]))
    assert timestep_embedding(steps, 3, repeat_only=True, dtype=torch.float16).dtype == torch.float16


def test_embedding_has_a_gradient():
    steps = torch.tensor([0.5, 7.0], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda t: timestep_embedding(t, 6), (steps,))


def test_bad_steps():
    with pytest.raises(TypeError, match=r"got torch\.complex64"):
        timestep_embedding(torch.ones(2, dtype=torch.complex64), 4)
    with pytest.raises(ValueError, match=r"1-D, got shape \(\)"):
        timestep_embedding(torch.tensor(3), 4)


def test_mean_of_each_sample():
    values = torch.arange(96.0).reshape(2, 3, 4, 4).requires_grad_()
    means = mean_flat(values)
    assert means.tolist() == [23.5, 71.5]
    means.sum().backward()
    assert torch.equal(values.grad, torch.full_like(values, 1 / 48))
    assert mean_flat(values.detach().int()).tolist() == [23.5, 71.5]
    assert mean_flat(torch.full((2, 5000), 3, dtype=torch.bfloat16)).tolist() == [3, 3]


def test_mean_of_one_number_each_is_unchanged():
    values = torch.tensor([3.0, -1.0])  # torch's own mean over no axes would average the batch
    assert mean_flat(values) is values


def test_extraction():
    a = torch.linspace(0, 1, 11, requires_grad=True)
    for dtype in (torch.int64, torch.int32, torch.uint8):
        out = extract_into_tensor(a, torch.tensor([3, 10], dtype=dtype), torch.Size([2, 3, 8, 8]))
        assert torch.equal(out, a[[3, 10]].reshape(2, 1, 1, 1))
    out.sum().backward()
    assert a.grad.nonzero().flatten().tolist() == [3, 10]
    rows = extract_into_tensor(torch.arange(6.0).reshape(2, 3), torch.tensor([[2], [0]]), (2, 7))
    assert rows.tolist() == [[2.0], [3.0]]


def test_extraction_from_a_numpy_schedule():
    schedule = np.linspace(0, 1, 11)
    schedule.flags.writeable = False
    out = extract_into_tensor(schedule, torch.tensor([3, 10]), (2, 4))
    assert isinstance(out, torch.Tensor)
    assert out.dtype == torch.float64
    assert out.flatten().tolist() == [schedule[3], schedule[10]]
    assert torch.equal(extract_into_tensor(torch.tensor(schedule), np.array([3, 10]), (2, 4)), out)


def test_bad_extraction():
    with pytest.raises(StepRangeError, match=r"step 1000, outside 0\.\.999"):
        extract_into_tensor(torch.ones(1000), torch.tensor([5, 1000]), (2, 3))
    with pytest.raises(TypeError, match="integers"):
        extract_into_tensor(torch.ones(10), torch.tensor([1.0]), (1, 3))


def test_sampling_parameters_stay_tensors():
    alphacums = torch.linspace(0.99, 0.01, 50)
    steps = np.array([1, 11, 49])
    results = make_ddim_sampling_parameters(alphacums, steps, 0.7, verbose=False)
    expected = make_ddim_sampling_parameters(alphacums.double().numpy(), steps, 0.7, verbose=False)
    for result, wanted in zip(results, expected, strict=True):
        assert result.dtype == torch.float64
        np.testing.assert_array_equal(result.numpy(), wanted)
    halves = make_ddim_sampling_parameters(alphacums, torch.tensor(steps), 0.7, verbose=False, dtype=torch.bfloat16)
    assert {half.dtype for half in halves} == {torch.bfloat16}


def test_noise():
    noise = noise_like((3, 4), "cpu", generator=torch.Generator().manual_seed(5))
    assert torch.equal(noise, torch.randn(3, 4, generator=torch.Generator().manual_seed(5)))
    assert torch.equal(noise, noise_like((3, 4), generator=torch.Generator().manual_seed(5)))
    torch.manual_seed(6)
    noise = noise_like((3, 4), torch.device("cpu"), dtype=torch.float64)
    torch.manual_seed(6)
    assert torch.equal(noise, torch.randn(3, 4, dtype=torch.float64))


def test_repeated_noise():
    noise = noise_like((4, 3, 2), "cpu", repeat=True, generator=torch.Generator().manual_seed(5))
    single = torch.randn(1, 3, 2, generator=torch.Generator().manual_seed(5))
    assert torch.equal(noise, torch.cat([single] * 4))
    noise[0] = 0  # every sample has memory of its own
    assert noise[1].any()


def test_noise_does_not_mix_the_two():
    with pytest.raises(ValueError, match="rng is for numpy"):
        noise_like((2,), "cpu", rng=np.random.default_rng(0))
    with pytest.raises(TypeError, match="pass device for torch"):
        noise_like((2,), dtype=torch.float16)


@pytest.mark.filterwarnings("default")  # torch's own warnings while compiling are not ours to judge
def test_the_helpers_compile_into_one_graph():
    def step(t, a, x):
        return timestep_embedding(t, 6), mean_flat(x), extract_into_tensor(a, t, x.shape) * x

    arguments = (torch.tensor([1, 4]), torch.linspace(0, 1, 5), torch.ones(2, 3, 4))
    compiled = torch.compile(step, fullgraph=True, backend="aot_eager")
    for got, wanted in zip(compiled(*arguments), step(*arguments), strict=True):
        torch.testing.assert_close(got, wanted)
