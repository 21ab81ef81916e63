"""The rules that the library has, in the words of torch.optim: settings and states by name."""

import dataclasses

import torch


@dataclasses.dataclass(frozen=True)
class Rule:
    name: str  # as the library knows it
    settings: dict  # of a param group, with torch.optim's defaults
    moments: tuple  # names of the states, as torch.optim has them
    refused: dict  # settings that may be there, but only with this value
    counts_steps: bool = True  # torch.optim's state has the count

    def group_step(self, group):
        """A param group's settings as the library's step takes them."""
        step = {"learning_rate": float(group["lr"]), "weight_decay": float(group["weight_decay"])}
        if "betas" in self.settings:
            step["beta1"], step["beta2"] = (float(beta) for beta in group["betas"])
        if "eps" in self.settings:
            step["epsilon"] = float(group["eps"])
        if "momentum" in self.settings:
            step["momentum"] = float(group["momentum"])
            step["nesterov"] = int(group["nesterov"])
        return step

    def why_wrong(self, group):
        """Why no optimizer can follow these settings, or None."""
        for setting in ("lr", "eps", "weight_decay", "momentum"):
            value = group.get(setting, 0.0) if setting in self.settings else 0.0
            if isinstance(value, torch.Tensor) and value.numel() != 1:
                return f"{setting} of {value.numel()} elements: expected one"
            if not float(value) >= 0:
                return f"{setting}={float(value)}: expected 0 or more"
        for beta in group["betas"] if "betas" in self.settings else ():
            if not 0 <= float(beta) < 1:
                return f"betas={tuple(map(float, group['betas']))}: expected 0 or more, below 1"
        return None

    def why_not(self, group):
        """Why the library cannot follow these settings, or None."""
        for setting, value in self.refused.items():
            if group.get(setting, value) != value:
                return f"{setting}={group[setting]!r}: {self.name} has {setting}={value!r} alone"
        return None


_REFUSED = {"maximize": False, "differentiable": False}
_ADAM = {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8}
_MOMENTS = ("exp_avg", "exp_avg_sq")

ADAMW = Rule("adamw", {**_ADAM, "weight_decay": 1e-2}, _MOMENTS, {**_REFUSED, "amsgrad": False})
ADAM = Rule("adam", {**_ADAM, "weight_decay": 0.0}, _MOMENTS,
            {**_REFUSED, "amsgrad": False, "decoupled_weight_decay": False})
LION = Rule("lion", {"lr": 1e-4, "betas": (0.9, 0.99), "weight_decay": 0.0}, ("exp_avg",), _REFUSED)
SGD = Rule("sgd", {"lr": 1e-3, "momentum": 0.0, "nesterov": False, "weight_decay": 0.0},
           ("momentum_buffer",), {**_REFUSED, "dampening": 0}, counts_steps=False)
ADAGRAD = Rule("adagrad", {"lr": 1e-2, "eps": 1e-10, "weight_decay": 0.0}, ("sum",),
               {**_REFUSED, "lr_decay": 0})


def rule_of(optimizer):
    """The rule of an optimizer of torch.optim's, or None where the library has none like it."""
    groups = optimizer.param_groups
    kind = type(optimizer)
    rule = {torch.optim.AdamW: ADAMW, torch.optim.Adam: ADAM, torch.optim.SGD: SGD,
            torch.optim.Adagrad: ADAGRAD}.get(kind)
    if kind is torch.optim.Adam and all(group.get("decoupled_weight_decay") for group in groups):
        rule = ADAMW
    if rule is None or any(rule.why_not(group) for group in groups):
        return None
    return rule
