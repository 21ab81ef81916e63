"""States of any optimizer in host memory: they come to the device and go home around the
optimizer's own step, parameter by parameter, within a window."""

import collections

import torch


class _Trip:
    """A parameter's state on the device."""

    def __init__(self, state, size, arrived):
        self.state, self.size, self.arrived = state, size, arrived


class WindowedStates:
    """Keeps `states` by parameter: tensors in host memory (pinned, for a GPU), anything else as it
    is. Those of the first parameters, as far as `fraction` leaves them, stay on the device.

    `copies` makes trips also where host and device are the same memory, for tests.
    """

    def __init__(self, inner, groups, *, fraction=1.0, window=0, overlap=True, copies=None):
        if getattr(type(inner), "__name__", "") == "LBFGS":
            raise TypeError("LBFGS updates all parameters as one vector, through a closure: its "
                            "states cannot come one parameter at a time")
        if not 0 <= fraction <= 1:
            raise ValueError(f"offload_fraction {fraction!r}: expected 0 to 1")
        self.inner = inner
        self.window, self.overlap, self.copies = window, overlap, copies
        self.fraction = fraction
        self.states = collections.defaultdict(dict)
        self._up = self._down = 0
        self._streams = {}
        self._gone = collections.OrderedDict()  # parameter: (bytes, the event of its way home)
        self.load(dict(inner.state))
        inner.state = collections.defaultdict(dict)

    # -- places ---------------------------------------------------------------------------------

    def _leaves(self, groups):
        """The parameters whose states leave the device: those listed last."""
        every = [parameter for group in groups for parameter in group["params"]]
        stay = (1 - self.fraction) * sum(parameter.numel() for parameter in every)
        leaves = set()
        for parameter in every:
            if stay > 0:
                stay -= parameter.numel()
            else:
                leaves.add(parameter)
        return leaves

    def _moves(self, parameter):
        return parameter.is_cuda if self.copies is None else self.copies

    def load(self, states):
        """Takes these states home; tensors are copied."""
        self.synchronize()
        self.states.clear()
        for parameter, state in states.items():
            self.states[parameter] = {
                name: self._home_of(parameter, value) if self._rides(parameter, value)
                else (value.clone() if isinstance(value, torch.Tensor) else value)
                for name, value in state.items()}

    @staticmethod
    def _rides(parameter, value):
        # Counts of steps are small, and stay where the optimizer wants them.
        return isinstance(value, torch.Tensor) and value.numel() > 1

    @staticmethod
    def _home_of(parameter, value):
        home = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype,
                                   pin_memory=parameter.is_cuda)
        return home.copy_(value.detach())

    # -- a step ---------------------------------------------------------------------------------

    def step(self, groups):
        leaves = self._leaves(groups)
        due = [(number, parameter) for number, group in enumerate(groups)
               for parameter in group["params"] if parameter.grad is not None]
        before = [{name: value for name, value in group.items() if name != "params"}
                  for group in groups]
        inner_groups, inner_state = self.inner.param_groups, self.inner.state
        # The optimizer's own, without what torch.optim wraps around it: hooks are this one's.
        step = type(self.inner).step
        step = step.__wrapped__ if getattr(step, "hooked", None) else step
        trips, flying, ahead = {}, 0, 0
        try:
            for at, (number, parameter) in enumerate(due):
                goes = parameter in leaves
                # The next ones come while this one is updated, as far as there is room.
                ahead = max(ahead, at)
                while ahead < len(due) and (ahead == at or self.overlap):
                    coming = due[ahead][1]
                    size = self._size(coming) if coming in leaves else 0
                    if ahead > at and flying + size > self._limit():
                        break
                    flying += size
                    self._make_room(size, flying)
                    trips[coming] = self._bring(coming, size, coming in leaves)
                    ahead += 1
                trip = trips.pop(parameter)
                if trip.arrived is not None:
                    current = torch.cuda.current_stream(parameter.device)
                    current.wait_event(trip.arrived)
                group = {**before[number], "params": [parameter]}
                self.inner.param_groups = [group]
                self.inner.state = collections.defaultdict(dict)
                if trip.state:
                    self.inner.state[parameter] = trip.state
                step(self.inner)
                made = self.inner.state.get(parameter, {})
                self._send(parameter, made, trip, goes)
                flying -= trip.size
                # What the optimizer counts in its group it counts once a step.
                groups[number].update((name, value) for name, value in group.items()
                                      if name != "params")
        finally:
            self.inner.param_groups, self.inner.state = inner_groups, inner_state

    def _size(self, parameter):
        return sum(value.nbytes for value in self.states.get(parameter, {}).values()
                   if self._rides(parameter, value))

    def _limit(self):
        # Four of the largest states: one is updated, one comes, one goes, one waits.
        return self.window or 4 * max(map(self._size, self.states), default=0)

    def _make_room(self, size, flying):
        """Waits for states on their way home, whose memory is needed."""
        going = sum(size for size, _ in self._gone.values())
        while self._gone and flying + going > self._limit():
            _, (size, event) = self._gone.popitem(last=False)
            event.synchronize()
            going -= size

    def _stream(self, device, way):
        if (device, way) not in self._streams:
            self._streams[device, way] = torch.cuda.Stream(device)
        return self._streams[device, way]

    def _bring(self, parameter, size, leaves):
        home = self.states.get(parameter, {})
        if not (leaves and self._moves(parameter)):
            return _Trip(dict(home), 0, None)
        if not parameter.is_cuda:
            self._up += size
            return _Trip({name: value.clone() if self._rides(parameter, value) else value
                          for name, value in home.items()}, size, None)
        stream = self._stream(parameter.device, "in")
        current = torch.cuda.current_stream(parameter.device)
        there = {}
        if parameter in self._gone:
            stream.wait_event(self._gone[parameter][1])
        for name, value in home.items():
            if not self._rides(parameter, value) or value.is_cuda:
                there[name] = value
                continue
            with torch.cuda.stream(stream):
                there[name] = value.to(parameter.device, non_blocking=True)
            there[name].record_stream(current)
        self._up += size
        arrived = torch.cuda.Event()
        arrived.record(stream)
        return _Trip(there, size, arrived)

    def _send(self, parameter, made, trip, leaves):
        if not (leaves and self._moves(parameter)):
            self.states[parameter] = made
            return
        home = self.states[parameter]
        kept, size = {}, 0
        if parameter.is_cuda:
            stream = self._stream(parameter.device, "out")
            stream.wait_stream(torch.cuda.current_stream(parameter.device))
        for name, value in made.items():
            if not self._rides(parameter, value):
                kept[name] = value
                continue
            old = home.get(name)
            same = (isinstance(old, torch.Tensor) and not old.is_cuda and old.dtype == value.dtype
                    and old.shape == value.shape and old.stride() == value.stride())
            place = old if same else torch.empty_strided(
                value.shape, value.stride(), dtype=value.dtype, pin_memory=parameter.is_cuda)
            if value.is_cuda:
                with torch.cuda.stream(stream):
                    place.copy_(value, non_blocking=True)
                value.record_stream(stream)
            else:
                place.copy_(value)
            kept[name] = place
            size += value.nbytes
        self.states[parameter] = kept
        self._down += size
        if parameter.is_cuda:
            event = torch.cuda.Event()
            event.record(stream)
            self._gone[parameter] = (size, event)

    def synchronize(self):
        """States are home on return."""
        while self._gone:
            self._gone.popitem()[1][1].synchronize()

    def placement(self):
        host = sum(map(self._size, self.states))
        return {"device_bytes": self._limit() if self._streams else 0, "host_bytes": host}

    def traffic(self):
        return {"up_bytes": self._up, "down_bytes": self._down}
