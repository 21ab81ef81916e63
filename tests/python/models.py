"""A small model, its data and a training loop, for all tests that need PyTorch."""

import torch

import ebb.torch


def make_model(dtype=torch.float32, seed=1):
    torch.manual_seed(seed)
    return torch.nn.Sequential(
        torch.nn.Linear(40, 96), torch.nn.GELU(), torch.nn.LayerNorm(96), torch.nn.Linear(96, 48),
        torch.nn.Tanh(), torch.nn.Linear(48, 8)).to(dtype)


def batch(step, dtype=torch.float32):
    generator = torch.Generator().manual_seed(step % 7)
    return (torch.randn(16, 40, generator=generator).to(dtype),
            torch.randn(16, 8, generator=generator))


def loss_of(model, step):
    inputs, targets = batch(step, next(model.parameters()).dtype)
    return ((model(inputs).float() - targets) ** 2).mean()


def train(model, optimizer, steps, after=None):
    """The losses of these steps."""
    losses = []
    for step in steps:
        optimizer.zero_grad()
        loss = loss_of(model, step)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if after is not None:
            after()
    return losses


def adamw(model, **options):
    return ebb.torch.AdamW(model.parameters(), **{"lr": 1e-2, "threads": 2, **options})


def same_weights(one, other):
    return all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters()))


def distance(one, other):
    return max(float((a.detach().float() - b.detach().float()).abs().max())
               for a, b in zip(one.parameters(), other.parameters()))


def same_states(one, other):
    """Of two state_dicts, bit by bit."""
    if one["state"].keys() != other["state"].keys():
        return False
    for key, state in one["state"].items():
        if state.keys() != other["state"][key].keys():
            return False
        if not all(torch.equal(value, other["state"][key][name]) for name, value in state.items()):
            return False
    return True
