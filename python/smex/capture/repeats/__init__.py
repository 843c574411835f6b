"""Calls of modules that repeat are traced once and copied.

The layers of a deep model, and the steps of a loop over time, make the same calls of operators with
other tensors. Such a call is traced once, forward and backward; in the place of each further one a
single node stands in the graph, and the converter copies what was traced.

**Two calls of modules are equal** when nothing that a call reads tells them apart:

* the modules: their classes, `training`, names and order of parts, and which are shared; none has
  hooks, or a `forward` of its own; shapes, strides, dtypes and `requires_grad` of parameters and
  buffers, and which of them are tied;
* the arguments: nested tuples, lists and dicts of tensors of the same shapes, strides, dtypes and
  `requires_grad`, the same ones being one and the same, and of equal values;
* the settings of torch: gradients, autocast, default dtype, backends of attention, no mode of a
  user's; and whether a checkpoint is around;
* each attribute that the call reads of the modules (what it does not read may differ: the number of
  a layer), by value;
* all else that its code may read: globals, closures, defaults and class attributes, and what these
  lead to, are the very same as they were.

What a call reads is seen, not guessed: one call is observed, and everything that its code may read
is held (`observing.py`, `held.py`). The next call that matches is observed too, and must read
nothing else, change nothing of what is held, neither its arguments nor its tensors, keep no tensor,
and return the like. Only then are others copied. Whatever cannot be followed (objects with slots,
iterators, generators, tables, time, another thread's state) makes a call unsure, and it is traced
as ever.

What cannot be known before is checked when the graph is there: that the calls read no tensor but
those that they were given, that nobody changes their tensors in place afterwards, that a gradient
is summed in the same order (`expand.py`). Where it fails, and where any error is raised, the
capture begins anew and traces every call.

`capture(model, args, repeats=False)`, or `SMEX_REPEATS=0`, traces every call.
"""

from smex.capture.repeats.calls import Repeats
from smex.capture.repeats.copies import NotRepeatedError, Origin
from smex.capture.repeats.expand import Bodies, is_number

__all__ = ["Bodies", "NotRepeatedError", "Origin", "Repeats", "is_number"]
