"""Use an installed wheel in an otherwise empty environment; run by `make test-wheel`."""

import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import unlabel
from unlabel import LabelRemover, OutputFilter, UnlabelError
from unlabel._method import compiled
from unlabel.evaluation import load_cifar10

assert Path(sys.prefix) in Path(unlabel.__file__).parents, unlabel.__file__
rows, labels = [[0.7, 0.2, 0.1], [0.6, 0.1, 0.3], [0.1, 0.8, 0.1]], ["cat", "cat", "dog"]
remover = LabelRemover(remove=["cat"], classes=["cat", "dog", "fox"]).fit(rows, labels)
with TemporaryDirectory() as folder:
    remover.filter_.save(Path(folder, "retired.safetensors"))
    retired = OutputFilter.load(Path(folder, "retired.safetensors"))
assert retired.classes == ("dog", "fox")
assert (retired.apply(rows) == remover.transform(rows)).all()
message = ""
try:
    retired.apply([[0.5, 0.1, 0.1]])
except UnlabelError as error:
    message = str(error)
assert message.startswith("Row 0 is not a probability vector"), message
# A build that fails is passed over, so nothing else would say so.
assert compiled.is_available() or shutil.which("cc") is None
assert load_cifar10().base.shape == (10000, 10)
print("The wheel works.")
