"""The small torch modules."""

import copy

import pytest

torch = pytest.importorskip("torch", reason="the diffusion modules need torch")

from firelu.diffusion import (  # noqa: E402
    AlphaBlender,
    HybridConditioner,
    avg_pool_nd,
    scale_module,
    zero_module,
)


def test_strategies():
    assert AlphaBlender.strategies == ["learned", "fixed", "learned_with_images"]
    assert AlphaBlender(0.5).merge_strategy == "learned_with_images"
    assert AlphaBlender(0.5).rearrange_pattern == "b t -> (b t) 1 1"
    with pytest.raises(ValueError, match=r"one of learned, fixed, learned_with_images, got 'mean'"):
        AlphaBlender(0.5, "mean")
    with pytest.raises(ValueError, match="did you mean 'learned_with_images'"):
        AlphaBlender(0.5, "learned_with_image")


@pytest.mark.parametrize("strategy", AlphaBlender.strategies)
def test_state_dict_is_the_original_layout(strategy):
    # The layout of the published checkpoints: one float32 tensor of shape [1] called mix_factor.
    original = torch.nn.Module()
    if strategy == "fixed":
        original.register_buffer("mix_factor", torch.Tensor([0.25]))
    else:
        original.register_parameter("mix_factor", torch.nn.Parameter(torch.Tensor([0.25])))
    blender = AlphaBlender(0.9, strategy)
    assert blender.load_state_dict(original.state_dict(), strict=True)
    assert blender.mix_factor.item() == 0.25
    original.load_state_dict(AlphaBlender(0.5, strategy).state_dict(), strict=True)
    assert original.mix_factor.item() == 0.5
    assert [name for name, _ in blender.named_parameters()] == [name for name, _ in original.named_parameters()]
    assert [name for name, _ in blender.named_buffers()] == [name for name, _ in original.named_buffers()]


def test_fixed_blend():
    spatial, temporal = torch.randn(4, 3, 5), torch.randn(4, 3, 5)
    blended = AlphaBlender(0.25, "fixed")(spatial, temporal)
    torch.testing.assert_close(blended, 0.25 * spatial + 0.75 * temporal)


def test_learned_blend_and_its_gradient():
    blender = AlphaBlender(0.3, "learned").double()
    spatial, temporal = torch.randn(4, 3, dtype=torch.float64), torch.randn(4, 3, dtype=torch.float64)
    alpha = torch.sigmoid(torch.tensor([0.3], dtype=torch.float64))
    blended = blender(spatial, temporal)
    torch.testing.assert_close(blended, alpha * spatial + (1 - alpha) * temporal, atol=1e-7, rtol=0)
    blended.sum().backward()
    wanted = (spatial - temporal).sum() * alpha * (1 - alpha)
    torch.testing.assert_close(blender.mix_factor.grad, wanted, atol=1e-6, rtol=0)


def test_images_take_the_spatial_branch_alone():
    pytest.importorskip("einops", reason="rearrange_pattern needs einops")
    blender = AlphaBlender(0.0)
    images = torch.tensor([[True, False], [False, True]])  # [batch, time]
    spatial, temporal = torch.ones(4, 3, 5), torch.zeros(4, 3, 5)  # [(batch time), tokens, channels]
    blended = blender(spatial, temporal, images)
    assert blended[:, 0, 0].tolist() == [1.0, 0.5, 0.5, 1.0]
    assert torch.equal(blended, blender(spatial, temporal, images.float()))
    assert blender.get_alpha(images).shape == (4, 1, 1)
    blended.sum().backward()
    assert blender.mix_factor.grad.item() == pytest.approx(2 * 15 * 0.25)
    video = AlphaBlender(0.0, rearrange_pattern="b t -> b 1 t 1 1")
    assert video.get_alpha(images).shape == (2, 1, 2, 1, 1)


def test_images_need_the_indicator():
    with pytest.raises(ValueError, match="needs image_only_indicator"):
        AlphaBlender(0.5)(torch.ones(1), torch.ones(1))


@pytest.mark.parametrize("strategy", AlphaBlender.strategies)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_blend_keeps_the_dtype(strategy, dtype):
    ones = torch.ones(2, 3, 5, dtype=dtype)
    assert AlphaBlender(0.5, strategy)(ones, ones, torch.zeros(1, 2)).dtype == dtype


def test_zero_and_scale():
    layer = torch.nn.Sequential(torch.nn.Conv2d(2, 3, 3), torch.nn.Linear(3, 3))
    before = copy.deepcopy(layer)
    assert scale_module(layer, 0.5) is layer
    for now, then in zip(layer.parameters(), before.parameters(), strict=True):
        assert torch.equal(now, then * 0.5)
        assert now.requires_grad
        assert now.is_leaf
    assert zero_module(layer) is layer
    assert not any(parameter.any() for parameter in layer.parameters())


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_average_pooling(dims):
    pool = avg_pool_nd(dims, kernel_size=2, stride=2)
    assert type(pool) is getattr(torch.nn, f"AvgPool{dims}d")
    x = torch.randn(1, 2, *[4] * dims)
    wanted = x
    for axis in range(2, 2 + dims):
        wanted = wanted.unflatten(axis, (2, 2)).mean(axis + 1)
    torch.testing.assert_close(pool(x), wanted)


@pytest.mark.parametrize("dims", [0, 4, "2"])
def test_average_pooling_elsewhere(dims):
    with pytest.raises(ValueError, match="dims must be 1, 2 or 3"):
        avg_pool_nd(dims, 2)


def test_hybrid_conditioner():
    conditioner = HybridConditioner(
        {"target": "torch.nn.Identity"},
        {"target": "torch.nn.Linear", "params": {"in_features": 4, "out_features": 2}},
        allowed=["torch.nn.*"],
    )
    assert set(conditioner.state_dict()) == {"crossattn_conditioner.weight", "crossattn_conditioner.bias"}
    concat, cross = torch.randn(1, 3), torch.randn(1, 4)
    out = conditioner(concat, cross)
    assert set(out) == {"c_concat", "c_crossattn"}
    assert torch.equal(out["c_concat"][0], concat)
    assert torch.equal(out["c_crossattn"][0], conditioner.crossattn_conditioner(cross))


def test_hybrid_conditioner_refuses_what_is_not_allowed():
    identity = {"target": "torch.nn.Identity"}
    with pytest.raises(ValueError, match="not allowed"):
        HybridConditioner(identity, {"target": "os.system"}, allowed=["torch.nn.*"])
    with pytest.raises(KeyError, match="target"):
        HybridConditioner(identity, {})
