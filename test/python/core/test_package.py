# SPDX-License-Identifier: BSD-2-Clause-Patent
"""The package as a whole: its stubs, its texts, its examples."""
import ast
import inspect
import os
import pathlib
import subprocess
import sys

import weka
from weka import _weka

from conftest import ADDRESSES, KEY, run_python

HERE = pathlib.Path(__file__).parent
PACKAGE = pathlib.Path(weka.__file__).parent
SOURCES = HERE.parent.parent.parent


def public(kind):
    return {n for n in vars(kind) if not n.startswith("_") or n in ("__dlpack__", "__dlpack_device__", "__bytes__")}


def test_the_stubs_name_what_is_there():
    assert (PACKAGE / "py.typed").exists()
    stubs = ast.parse((PACKAGE / "_weka.pyi").read_text())
    classes = {node.name: node for node in stubs.body if isinstance(node, ast.ClassDef)}
    for name in ("Client", "Batch", "Dataset", "Item", "SampleBatch", "Stream"):
        told = {n.name for n in classes[name].body if isinstance(n, ast.FunctionDef)}
        assert public(getattr(weka, name)) <= told, name
        assert {n for n in told if not n.startswith("__")} <= public(getattr(weka, name)), name
    fields = [n.name for n in classes["Stat"].body]
    assert fields == list(weka.Stat.__match_args__), "a tuple with names, without the methods of NamedTuple"


def test_the_stubs_know_each_argument():
    stubs = ast.parse((PACKAGE / "_weka.pyi").read_text())
    classes = {n.name: n for n in stubs.body if isinstance(n, ast.ClassDef)}
    client = classes["Client"]
    for kind, node in [(weka.Client, n) for n in client.body] + [(weka.Dataset, n) for n in classes["Dataset"].body]:
        if not isinstance(node, ast.FunctionDef) or node.name.startswith("_") or "property" in ast.dump(node):
            continue
        same_arguments(node, inspect.signature(getattr(kind, node.name)))
    (new,) = [n for n in client.body if isinstance(n, ast.FunctionDef) and n.name == "__new__"]
    same_arguments(new, inspect.signature(weka.Client))


def same_arguments(node, real):
    """Names, kinds and defaults."""
    a = node.args
    told = [(arg.arg, "by place") for arg in a.posonlyargs + a.args] + [(arg.arg, "by name") for arg in a.kwonlyargs]
    have = [(p.name, "by name" if p.kind == p.KEYWORD_ONLY else "by place") for p in real.parameters.values()]
    assert [t for t in told if t[0] not in ("self", "cls")] == [h for h in have if h[0] != "self"], node.name
    with_default = [arg.arg for arg in (a.posonlyargs + a.args)[len(a.posonlyargs + a.args) - len(a.defaults):]]
    values = dict(zip(with_default, a.defaults))
    values.update((arg.arg, d) for arg, d in zip(a.kwonlyargs, a.kw_defaults) if d is not None)
    told = {name: ast.literal_eval(value) for name, value in values.items()}
    have = {p.name: p.default for p in real.parameters.values() if p.default is not p.empty}
    if "overload" in ast.dump(node):  # one of several, which differ in what must be given
        have = {name: have[name] for name in told}
    assert told == have, node.name


def test_everything_is_described():
    for kind in (weka.Client, weka.Batch, weka.Item, weka.Stat):
        assert kind.__doc__
        for name in public(kind) - {"__bytes__"}:
            assert getattr(kind, name).__doc__, (kind, name)
    assert weka.__version__ == "0.1.0"


def test_importing_it_again(shm, files):
    """As importlib.reload() and tests of other packages do: the types are the same."""
    code = """if 1:
        import importlib, sys, weka
        client = weka.Client()
        importlib.reload(weka)
        for name in [n for n in sys.modules if n.split('.')[0] == 'weka']: del sys.modules[name]
        import weka as again
        assert again is not weka and type(client) is again.Client
        print(client.listdir('/') == again.Client().listdir('/'))
    """
    assert run_python(code).stdout == "True\n"


def test_another_interpreter_is_refused():
    code = """if 1:
        import sys, weka, _xxsubinterpreters as interpreters
        there = "import sys\\nsys.path[:] = %r\\ntry: import weka\\nexcept ImportError as e: print(e)" % sys.path
        interpreters.run_string(interpreters.create(), there)
    """
    assert "one interpreter" in run_python(code).stdout


def test_nothing_else_is_exported():
    names = subprocess.run(["nm", "-D", "--defined-only", _weka.__file__], check=True, capture_output=True,
                           text=True).stdout.split()
    assert [n for n in names[2::3]] == ["PyInit__weka"]


def test_the_example(shm, files):
    script = SOURCES / "client-lib/python/examples/epoch.py"
    done = subprocess.run([sys.executable, script, ADDRESSES["tcp"], KEY, "/files"], capture_output=True, text=True,
                          timeout=60)
    assert done.stdout == "600 files, %d bytes\n" % sum(map(len, files.values())), done.stderr


def test_the_ten_lines_of_the_readme(shm, top):
    """They run as they stand, but for the address and the directory."""
    text = (SOURCES / "README.md").read_text().split("## From Python")[1]
    lines = text.split("```python\n")[1].split("```")[0]
    shm.put_batch([("%s/%d.png" % (top, n), b"PNG%d" % n) for n in range(300)])
    env = dict(os.environ, WEKA_ADDRESS=ADDRESSES["shm"], WEKA_KEY_FILE=KEY)
    done = subprocess.run([sys.executable, "-c", lines.replace("/doc", top)], env=env, capture_output=True, text=True,
                          timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "b'hello, world\\n'"
    assert "301 files" in done.stdout
