"""Random modules on random journeys beside the plain module, equal at every station."""

import copy
import random
import warnings

import pytest
import torch
from random_modules import KINDS, WIDTH, WORDS, Random, parts_of

import smex

TOLERANCE = {torch.float64: 1e-9, torch.float32: 2e-3}


class Journey:
    """A net and the plain module, which do the same."""

    def __init__(self, seed: int):
        self.draw = random.Random(f"journey {seed}")
        self.plain = Random(seed).double()
        self.dtype = torch.float64
        self.workers = self.draw.choice([1, 2, 3, 4])
        self.net = self.divided()
        self.optimisers = None
        self.rows = 6
        self.handles = []

    def divided(self):
        return smex.partition(copy.deepcopy(self.plain), workers=self.workers, replicate_bytes=0)

    def inputs(self):
        x = torch.randn(self.rows, WIDTH, dtype=self.dtype)
        return x, torch.randint(WORDS, (self.rows,))

    def compare(self, found, wanted, what, scale=1.0):
        bound, found, wanted = TOLERANCE[self.dtype], found.detach(), wanted.detach()
        scale = max(scale, float(wanted.abs().max())) if wanted.numel() else 1.0
        torch.testing.assert_close(
            found, wanted, rtol=bound, atol=bound * scale, msg=lambda text: f"{what}: {text}"
        )

    def compare_results(self, found, wanted):
        found, wanted = parts_of(found), parts_of(wanted)
        self.compare(found[0], wanted[0], "main output")
        assert found[1].keys() == wanted[1].keys()
        for key in wanted[1]:
            self.compare(found[1][key], wanted[1][key], f"output {key}")
            assert found[1][key].requires_grad == wanted[1][key].requires_grad, key
        assert found[2] == wanted[2]

    def compare_state(self):
        state, wanted = self.net.state_dict(), self.plain.state_dict()
        assert list(state) == list(wanted)
        for name, tensor in wanted.items():
            self.compare(state[name], tensor, name)

    # ---- stations ----

    def train(self):
        if self.optimisers is None:
            self.net(*(args := self.inputs()))  # the shards exist now
            self.plain(*args)
            make = self.draw.choice([torch.optim.SGD, torch.optim.AdamW])
            self.optimisers = [make(m.parameters(), lr=1e-3) for m in (self.net, self.plain)]
        args = self.inputs()
        found, wanted = self.net(*args), self.plain(*args)
        self.compare_results(found, wanted)
        read = self.draw.sample(["main", "aside", "middle"], self.draw.randint(1, 3))
        for result in (found, wanted):
            main, others, _ = parts_of(result)
            loss = sum(torch.cos({"main": main, **others}[key]).sum() for key in sorted(read))
            if loss.requires_grad:
                loss.backward()
        grads = self.net.full_grads()
        expected = {name: p.grad for name, p in self.plain.named_parameters(remove_duplicate=False)}
        largest = max([1.0, *(float(g.abs().max()) for g in expected.values() if g is not None)])
        for name, grad in expected.items():
            assert (name in grads) == (grad is not None), f"gradient of {name}"
            if grad is not None:  # of a bias before a norm it is the rest of what cancels
                self.compare(grads[name], grad, f"gradient of {name}", scale=largest)
        for optimiser in self.optimisers:
            optimiser.step()
            optimiser.zero_grad()

    def evaluate(self):
        args = self.inputs()
        with torch.no_grad():
            self.compare_results(self.net(*args), self.plain(*args))

    def eval_mode(self):
        self.net.eval()
        self.plain.eval()
        self.evaluate()

    def train_mode(self):
        self.net.train()
        self.plain.train()

    def part_mode(self):
        number, mode = self.draw.randrange(len(self.plain.parts)), self.draw.random() < 0.5
        self.plain.parts[number].train(mode)
        self.net._model[0].parts[number].train(mode)  # the module that the user has given

    def freeze(self):
        names = [name for name, _ in self.plain.named_parameters()]
        chosen = self.draw.sample(names, len(names) // 2)
        wants = self.draw.random() < 0.3
        for name, parameter in self.plain.named_parameters():
            if name in chosen:
                parameter.requires_grad_(wants)
        if self.optimisers is None:
            self.evaluate()
        for name, shard in self.net.named_parameters():
            if name.partition(".")[2] in chosen:
                shard.requires_grad_(wants)

    def move(self):
        """Saves, and loads into a net of another number of workers."""
        self.unhook()
        state = {name: tensor.clone() for name, tensor in self.net.state_dict().items()}
        self.workers = self.draw.choice([1, 2, 3, 4])
        fresh = copy.deepcopy(self.plain)
        for tensor in fresh.state_dict().values():
            tensor.zero_()
        self.net = smex.partition(fresh, workers=self.workers, replicate_bytes=0)
        if self.draw.random() < 0.5:
            self.net.prepare(self.inputs())
        self.net.load_state_dict(state)
        self.optimisers = None

    def copied(self):
        self.unhook()
        self.net, self.optimisers = copy.deepcopy(self.net), None

    def resize(self):
        self.rows = self.draw.choice([4, 5, 6, 9])

    def convert(self):
        self.unhook()
        self.dtype = torch.float32 if self.dtype is torch.float64 else torch.float64
        self.plain.to(self.dtype)
        self.net, self.optimisers = self.divided(), None

    # What the user does to the model itself.

    def models(self):
        return self.net._model[0], self.plain

    def replace(self):
        """Another part, which is trained from now on."""
        number, make = self.draw.randrange(len(self.plain.parts)), self.draw.choice(KINDS)
        part = make().to(self.dtype)
        for model in self.models():
            model.parts[number] = copy.deepcopy(part)
        self.optimisers = None

    def retie(self):
        new = torch.randn(WORDS, WIDTH, dtype=self.dtype)
        for model in self.models():
            if model.head.weight is model.words.weight:
                model.head.weight = torch.nn.Parameter(new.clone())
            else:
                model.head.weight = model.words.weight
        self.evaluate()  # a net has whole tensors of its own only after it is called
        self.optimisers = None

    def setting(self):
        step = self.draw.randrange(len(self.plain.parts)), self.draw.random(), self.draw.random()
        form = self.draw.choice(["dataclass", "tuple", "dict"])
        at = self.draw.randrange(len(self.plain.steps))
        for model in self.models():
            model.form = form
            model.steps[at] = step

    def hook(self):
        if self.handles:
            self.unhook()
            return
        factor = self.draw.random()
        number = self.draw.randrange(len(self.plain.parts))
        for model in self.models():
            part = model.parts[number]
            self.handles.append(part.register_forward_hook(lambda m, a, y: y * factor))

    def unhook(self):
        """Takes the hooks back while their handles lead to the models."""
        for handle in self.handles:
            handle.remove()
        self.handles = []

    STATIONS = (
        (train, 5), (evaluate, 2), (eval_mode, 2), (train_mode, 2), (part_mode, 1), (freeze, 1),
        (move, 1), (copied, 1), (resize, 1), (convert, 1),
        (replace, 1), (retie, 1), (setting, 1), (hook, 1),
    )  # fmt: skip

    def travel(self, count: int):
        kinds, weights = zip(*self.STATIONS, strict=True)
        route = []
        for station in self.draw.choices(kinds, weights, k=count):
            route.append(station.__name__)
            try:
                station(self)
                self.compare_state()
            except Exception as error:
                error.add_note(f"route: {' → '.join(route)} with {self.workers} workers")
                raise


@pytest.mark.costly(cases=10)
@pytest.mark.parametrize("seed", range(1000))
def test_equal_at_every_station(seed):
    torch.manual_seed(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", smex.MissingSpecWarning)
        Journey(seed).travel(6)
