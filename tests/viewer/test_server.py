"""The server of the viewer: who may ask, what may be asked, and what it says of files that change."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Event
from time import sleep
from urllib.parse import quote

import pytest

import callgrove.viewer.server.running as running
from callgrove.analysis.costs import costs
from callgrove.analysis.views import top
from callgrove.errors import InputError, UsageError
from callgrove.examples import example, gpu_example, study_example
from callgrove.formats.writing.transfer import write
from callgrove.model.experiment import Experiment
from callgrove.model.study.series import Study
from callgrove.viewer.page import modules
from callgrove.viewer.server.inputs import Input, Wanted
from callgrove.viewer.server.looks import Looks
from callgrove.viewer.server.parameters import BadRequest, Parameters
from callgrove.viewer.server.running import Address, Viewer, find_proxy
from tests.requirements import need_module
from tests.timing import HANG_SEC
from tests.viewer.serving import ask, ask_raw, made_input, path_input, serving

need_module("starlette")
need_module("uvicorn")

JSON = "application/json"


def broken_input() -> Input:
    """An input that cannot be opened."""

    def fail(progress: object) -> Experiment:
        raise InputError("broken.d: is broken")

    return Input(Wanted(("broken.d",), fail))


# -- who may ask -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def viewer() -> Iterator[Viewer]:
    with serving(made_input(example())) as running_viewer:
        yield running_viewer


PLACES = ("/", "/static/serve.js", "/static/theme.css", "/api/status", "/api/outline", "/api/tab?input=0&tab=Overview")


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("given", [{}, {"X-Callgrove-Token": "wrong"}, {"Cookie": "callgrove-12345678=wrong"}])
def test_nothing_is_answered_without_the_token(viewer: Viewer, place: str, given: dict[str, str]) -> None:
    status, headers, body = ask_raw(viewer, place, given, token=False)
    assert status == 403
    assert b"token" in body
    assert "set-cookie" not in headers


@pytest.mark.parametrize("token", ["", "x", "%00", "a&token=b", quote("é" * 40)])
def test_a_wrong_token_in_the_address_is_refused(viewer: Viewer, token: str) -> None:
    assert ask_raw(viewer, f"/?token={token}", token=False)[0] == 403


def test_the_address_is_needed_once(viewer: Viewer) -> None:
    """Then a cookie does, which scripts cannot read and other sites do not get."""
    status, headers, body = ask_raw(viewer, f"/?token={viewer.token}", token=False)
    assert status == 200
    assert b'<script type="module" src="static/serve.js">' in body
    cookie = headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert "path" not in cookie.lower(), "a proxy may have put the page anywhere"
    given = {"Cookie": cookie.partition(";")[0]}
    for place in PLACES:
        assert ask_raw(viewer, place, given, token=False)[0] == 200
    assert ask_raw(viewer, f"/api/status?token={viewer.token}", token=False)[0] == 403, "the token opens the page only"


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:80", "", "a:b:c"])
def test_foreign_hosts_are_refused(viewer: Viewer, host: str) -> None:
    status, _, body = ask_raw(viewer, "/api/status", {"Host": host})
    assert status in (400, 421)
    assert b"inputs" not in body


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:9999", "LOCALHOST", "[::1]:80"])
def test_loopback_is_answered_whatever_the_port(viewer: Viewer, host: str) -> None:
    """ssh may forward any port."""
    assert ask_raw(viewer, "/api/status", {"Host": host})[0] == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "http://["},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors"},
        {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors"},
    ],
)
def test_foreign_pages_are_refused(viewer: Viewer, headers: dict[str, str]) -> None:
    assert ask_raw(viewer, "/api/status", headers)[0] == 403


def test_only_our_page_may_change_anything(viewer: Viewer) -> None:
    ours = f"http://127.0.0.1:{viewer.address.port}"
    assert ask_raw(viewer, "/api/open?input=0", method="POST")[0] == 403
    assert ask_raw(viewer, "/api/open?input=0", {"Origin": ours}, method="GET")[0] in (400, 405)
    assert ask_raw(viewer, "/api/status", method="PUT")[0] == 405
    assert ask_raw(viewer, "/api/open?input=7", {"Origin": ours}, method="POST")[0] == 400


def test_answers_say_what_a_page_may_do(viewer: Viewer) -> None:
    for place in (*PLACES, "/nowhere", "/static/none.js"):
        _, headers, _ = ask_raw(viewer, place)
        policy = headers["content-security-policy"]
        assert "script-src 'self'" in policy
        assert "unsafe" not in policy
        assert "http" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert headers["referrer-policy"] == "no-referrer"


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "/static/../page.py", "/static/%2e%2e%2fpage.py", "/static/..%2f..%2f__init__.py",
             "//etc/passwd", "/static//etc/passwd", "/api/../static/main.js", "/static/documents.d.ts"],
)  # fmt: skip
def test_no_file_beyond_the_page_is_given(viewer: Viewer, path: str) -> None:
    status, _, body = ask_raw(viewer, path)
    assert status in (400, 404)
    assert len(body) < 300
    assert "from __future__" not in body.decode()


def test_modules_are_those_of_the_package(viewer: Viewer) -> None:
    for name, text in modules().items():
        status, headers, body = ask_raw(viewer, f"/static/{name}")
        assert (status, body.decode()) == (200, text)
        assert headers["content-type"].startswith("text/javascript")


def test_a_proxy_is_answered_that_was_named() -> None:
    with serving(made_input(example()), hosts=("hub.example.org",)) as behind:
        headers = {"Host": "hub.example.org", "Origin": "https://hub.example.org"}
        assert ask_raw(behind, "/api/status", headers)[0] == 200
        assert ask_raw(behind, "/api/status", {"Host": "other.example.org"})[0] == 421


def test_proxies_are_found_in_the_environment() -> None:
    address = Address(8123, "T")
    assert find_proxy({}, address) is None
    code = {"VSCODE_PROXY_URI": "https://code.example.org/proxy/{{port}}/"}
    assert find_proxy(code, address) == ("code.example.org", "https://code.example.org/proxy/8123/?token=T")
    hub = {"JUPYTERHUB_SERVICE_PREFIX": "/user/a/", "JUPYTERHUB_PUBLIC_URL": "https://hub.example.org/user/a/"}
    assert find_proxy(hub, address) == ("hub.example.org", "https://hub.example.org/user/a/proxy/8123/?token=T")
    assert find_proxy({"JUPYTERHUB_SERVICE_PREFIX": "/user/a/"}, address) == ("", "/user/a/proxy/8123/?token=T")


# -- what may be asked -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "query",
    ["", "input=0", "input=-1&tab=Overview", "input=1&tab=Overview", "input=x&tab=Overview",
     "input=99999999999999999999999&tab=a", "input=0&input=0&tab=a", "input=0&tab=a&what=b", "input=0&tab=%ff",
     "&".join(["a=b"] * 99), "input=0&tab=" + "x" * 5_000, "input=0&tab=" + "x" * 14_000,
     "input=0&tab=a" + "&derive=a" * 13],
)  # fmt: skip
def test_malformed_parameters_are_refused(viewer: Viewer, query: str) -> None:
    status, headers, body = ask_raw(viewer, f"/api/tab?{query}")
    assert status == 400
    assert headers["content-type"] == JSON
    assert b"Traceback" not in body
    assert ask_raw(viewer, "/api/none?input=0")[0] == 400


def test_addresses_without_end_are_refused(viewer: Viewer) -> None:
    try:
        status, _, _ = ask_raw(viewer, f"/api/tab?input=0&tab={'x' * 100_000}")
    except OSError:
        return  # the connection was closed while it was still being sent
    assert status in (400, 431)


def test_numbers_are_checked() -> None:
    parameters = Parameters.parse(b"n=7&x=0.5&y=nan&z=inf&w=a")
    assert parameters.integer("n", 0, 9) == 7
    assert parameters.integer("none", 0, 9, 3) == 3
    assert parameters.real("x", 0, 1) == 0.5
    for name in ("y", "z", "w", "none"):
        with pytest.raises(BadRequest):
            parameters.real(name, 0, 1)
    with pytest.raises(BadRequest):
        parameters.choice("w", ("b", "c"))


def test_typed_texts_say_where_they_are_wrong(viewer: Viewer) -> None:
    status, said = ask(viewer, "look", derive=["a = nothing / cycles"])
    assert (status, said["position"]) == (422, 4)
    assert "nothing" in said["error"]
    status, said = ask(viewer, "look", filter="main -> *[?nothing > 5%]")
    assert status == 422
    assert said["position"] >= 0
    assert ask(viewer, "look", filter="no_such_function")[0] == 422
    assert ask(viewer, "tab", tab="Overview", metric="no_such_metric")[0] == 422
    status, said = ask(viewer, "look", derive=["mine = cycles * 2"])
    assert (status, said["metrics"][-1]) == (200, "mine")


# -- what is answered --------------------------------------------------------------------------------------------------


def test_numbers_are_those_of_the_verbs(viewer: Viewer) -> None:
    for metric in example().metrics.shown:
        status, answered = ask(viewer, "tab", tab="Overview", metric=metric)
        assert status == 200
        (panel,) = [one for one in answered["panels"] if one["kind"] == "hotspots"]
        expected = top(costs(example(), metric))
        assert panel["data"]["top"]["exclusive"][0] == expected.column("exclusive").plain()
        names = [panel["data"]["labels"]["name"][label] for label in panel["data"]["top"]["label"]]
        assert names == expected.column("name").plain()


def test_filters_and_formulas_reach_every_tab(viewer: Viewer) -> None:
    _, answered = ask(viewer, "tab", tab="Overview", metric="twice", derive=["twice = cycles * 2"])
    _, plain = ask(viewer, "tab", tab="Overview", metric="cycles")
    twice, once = (one["panels"][0]["data"]["metrics"][0]["total"] for one in (answered, plain))
    assert twice == pytest.approx(2 * once)
    _, filtered = ask(viewer, "tab", tab="Overview", metric="cycles", filter="** -> MPI_*")
    assert 0 < filtered["panels"][0]["data"]["metrics"][0]["total"] < once


@pytest.mark.parametrize("opened", [example, gpu_example, study_example])
def test_every_tab_of_every_kind_is_answered(opened: Callable[[], Experiment | Study]) -> None:
    with serving(made_input(opened())) as one:
        _, outline = ask(one, "outline")
        (section,) = outline["sections"]
        assert section["tabs"][0]["title"] == "Overview"
        for tab in section["tabs"]:
            status, answered = ask(one, "tab", tab=tab["title"], metric=section["first_metric"])
            assert status == 200
            assert answered["panels"], tab["title"]


def test_several_inputs_stand_side_by_side() -> None:
    with serving(made_input(example()), broken_input(), made_input(gpu_example())) as three:
        _, outline = ask(three, "outline")
        assert [len(section["tabs"]) > 1 for section in outline["sections"]] == [True, False, True]
        assert outline["sections"][1]["warnings"] == [["damage", "broken.d: is broken"]]
        assert ask(three, "tab", tab="Overview", input=1) == (409, {"error": "broken.d: is broken"})


# -- many, slow and gone clients ---------------------------------------------------------------------------------------


def test_a_hundred_requests_at_once(viewer: Viewer) -> None:
    with ThreadPoolExecutor(100) as pool:
        metrics = [("cycles", "CPUTIME (sec)")[k % 2] for k in range(100)]
        answers = list(pool.map(lambda metric: ask(viewer, "tab", tab="Overview", metric=metric), metrics))
    assert {status for status, _ in answers} == {200}
    totals = {answer["panels"][0]["data"]["metrics"][0]["total"] for _, answer in answers}
    assert len(totals) == 2


def test_more_requests_than_any_page_makes_are_refused() -> None:
    held, begun = Event(), Event()
    one = made_input(example())
    with serving(one) as busy, ThreadPoolExecutor(20) as pool:
        busy.work.most_waiting = 6

        def hold() -> None:
            with one.lock:
                begun.set()
                assert held.wait(HANG_SEC)

        holding = pool.submit(hold)
        assert begun.wait(HANG_SEC)
        answers = [pool.submit(ask, busy, "tab", tab="Overview") for _ in range(12)]
        while sum(one.done() for one in answers) < 6:
            Event().wait(0.01)
        held.set()
        holding.result()
        assert sorted(one.result()[0] for one in answers) == [200] * 6 + [503] * 6


def test_abandoned_requests_are_not_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many that go away while they wait, at most those are computed that had a thread already."""
    held, begun, computed = Event(), Event(), []
    one = made_input(example())
    with serving(one) as left, ThreadPoolExecutor(1) as pool:

        def hold() -> None:
            with one.lock:
                begun.set()
                assert held.wait(HANG_SEC)

        holding = pool.submit(hold)
        assert begun.wait(HANG_SEC)
        demand = one.demand

        def count() -> Looks:
            computed.append(1)
            return demand()

        monkeypatch.setattr(one, "demand", count)
        request = (
            f"GET /api/tab?input=0&tab=Overview HTTP/1.1\r\nHost: localhost\r\nX-Callgrove-Token: {left.token}\r\n\r\n"
        )
        gone = [socket.create_connection(("127.0.0.1", left.address.port)) for _ in range(30)]
        for connection in gone:
            connection.sendall(request.encode())
        while left.work.n_waiting < 30:
            Event().wait(0.01)
        for connection in gone:
            connection.close()
        Event().wait(0.2)
        held.set()
        holding.result()
        while left.work.n_waiting:
            Event().wait(0.01)
        assert len(computed) <= left.work.n_threads
        assert ask(left, "tab", tab="Overview")[0] == 200


def test_slow_clients_are_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that sends its request byte by byte, before or after another, does not stay for ever."""
    monkeypatch.setattr(running, "REQUEST_WITHIN_S", 0.2)
    with serving(made_input(example())) as slow:
        for first in (b"", b"GET /api/status HTTP/1.1\r\nHost: localhost\r\n\r\n"):
            with socket.create_connection(("127.0.0.1", slow.address.port), timeout=HANG_SEC) as connection:
                connection.sendall(first + b"GET / HT")
                while connection.recv(4096):
                    pass  # until the server closes it
        assert ask(slow, "status")[0] == 200


# -- files that change -------------------------------------------------------------------------------------------------


@pytest.fixture
def written(tmp_path: Path) -> Path:
    target = tmp_path / "made.cubex"
    write(example(), target)
    return target


def change(path: Path, how: str) -> None:
    """Do something to a file that is open."""
    if how == "removed":
        path.unlink()
    elif how == "replaced":
        other = path.with_name("other")
        other.write_bytes(path.read_bytes())
        other.replace(path)
    else:
        with path.open("ab") as file:
            file.write(b"more")
        if how == "was changed":
            os.utime(path, (1e9, 1e9))


@pytest.mark.parametrize("how", ["removed", "replaced", "still being written", "was changed"])
def test_a_file_that_is_not_what_it_was(written: Path, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import callgrove.viewer.server.inputs as inputs

    monkeypatch.setattr(inputs, "LOOK_AGAIN_S", 0.0)
    one = path_input(written)
    with serving(one) as changing:
        assert ask(changing, "tab", tab="Overview")[0] == 200
        before = written.read_bytes()
        change(written, how)
        status, said = ask(changing, "tab", tab="Overview")
        assert status == 409
        assert how in said["error"]
        assert str(written) in said["error"]
        written.write_bytes(before)
        ours = f"http://127.0.0.1:{changing.address.port}"
        assert ask_raw(changing, "/api/open?input=0", {"Origin": ours}, method="POST")[0] == 200
        assert one.settled.wait(HANG_SEC)
        assert ask(changing, "tab", tab="Overview")[0] == 200, "it is open again"


# -- how it ends -------------------------------------------------------------------------------------------------------


def test_it_ends_when_nobody_asks() -> None:
    idle = Viewer([made_input(example())], "made", idle_s=0.2)
    idle.inputs[0].start()
    idle.run()  # which returns


def call_in_a_loop(function: Callable[[], None]) -> None:
    """Call a function while this thread runs a loop. Playwright, once it was used, leaves one that runs."""

    async def call() -> None:
        function()

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        with closing(asyncio.new_event_loop()) as loop:
            loop.run_until_complete(call())
    else:
        function()


def test_it_runs_where_a_loop_runs_already() -> None:
    """As in a notebook: the server gets a thread of its own, and what goes wrong there is raised here."""
    idle, failing = (Viewer([made_input(example())], "made", idle_s=0.2) for _ in range(2))

    def fail() -> None:
        raise UsageError("no screen")

    def run_both() -> None:
        idle.run()
        with pytest.raises(UsageError, match="no screen"):
            failing.run(fail)

    idle.inputs[0].start()
    call_in_a_loop(run_both)
    assert {idle._socket.fileno(), failing._socket.fileno()} == {-1}, "both are closed"


def test_ctrl_c_ends_it_where_a_loop_runs_already() -> None:
    """The main thread gets the signal while it waits for that of the server."""
    endless = Viewer([made_input(example())], "made")

    def run_and_interrupt() -> None:
        with pytest.raises(KeyboardInterrupt):
            endless.run(lambda: signal.raise_signal(signal.SIGINT))

    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        call_in_a_loop(run_and_interrupt)
    finally:
        signal.signal(signal.SIGINT, previous)
    assert endless._socket.fileno() == -1, "the server has ended"


def test_it_ends_when_nothing_could_be_opened() -> None:
    failing = Viewer([broken_input()], "made")
    failing.inputs[0].start()
    failing.run()
    assert failing.has_all_failed


def test_it_goes_on_when_a_file_is_gone_for_a_while(written: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that was removed may come back: the page that shows it can open it again, however often that fails."""
    import callgrove.viewer.server.inputs as inputs

    monkeypatch.setattr(inputs, "LOOK_AGAIN_S", 0.0)
    monkeypatch.setattr(running, "LOOK_S", 0.01)
    one = path_input(written)
    with serving(one) as viewer:
        before = written.read_bytes()
        written.unlink()
        assert "put it back" in ask(viewer, "tab", tab="Overview")[1]["error"]
        ours = {"Origin": f"http://127.0.0.1:{viewer.address.port}"}
        ask_raw(viewer, "/api/open?input=0", ours, method="POST")
        assert one.settled.wait(HANG_SEC)
        assert one.error is not None
        sleep(0.2)  # it looks twenty times whether to end
        assert ask(viewer, "outline")[1]["sections"][0]["warnings"][0][0] == "damage"
        written.write_bytes(before)
        ask_raw(viewer, "/api/open?input=0", ours, method="POST")
        assert one.settled.wait(HANG_SEC)
        assert ask(viewer, "tab", tab="Overview")[0] == 200


def test_only_loopback_is_bound_and_a_taken_port_is_named() -> None:
    one = Viewer([made_input(example())], "made")
    assert one._socket.getsockname()[0] == "127.0.0.1"
    one._socket.listen()
    with pytest.raises(UsageError, match=f"port {one.address.port} cannot be used"):
        Viewer([made_input(example())], "made", port=one.address.port)
    one._socket.close()
