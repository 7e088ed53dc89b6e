"""The programs that anybody would try first, each twice in virtual time: the same packets and output, to the
byte.

`scripts/setup-system --long` installs them; `make test-long` does so.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from test_live import program, run_shell
from test_programs import digests

LIMIT_S = 600.0
BYTES = 50_000

NGINX = """
daemon off; master_process off; error_log stderr; pid {folder}/pid;
events {{}}
http {{
    access_log off; client_body_temp_path {folder}; proxy_temp_path {folder}; fastcgi_temp_path {folder};
    uwsgi_temp_path {folder}; scgi_temp_path {folder}; types {{ text/html html; image/svg+xml svg; }}
    server {{ listen 80; {more} root {folder}; }}
}}
"""
TLS = "listen 443 ssl; ssl_certificate {folder}/server.pem; ssl_certificate_key {folder}/server.key;"

GO = """package main

import ("fmt"; "io"; "net/http")

func main() {
    answer, err := http.Get("http://server/page")
    if err != nil { panic(err) }
    body, err := io.ReadAll(answer.Body)
    if err != nil { panic(err) }
    fmt.Println(len(body))
}
"""
JAVA_CLIENT = """
import java.net.URI;
import java.net.http.*;

public class Client {
    public static void main(String[] arguments) throws Exception {
        var request = HttpRequest.newBuilder(URI.create("http://server/page")).build();
        var answer = HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofByteArray());
        System.out.println(answer.body().length);
    }
}
"""
JAVA_SERVER = """
import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;

public class Server {
    public static void main(String[] arguments) throws Exception {
        var server = HttpServer.create(new InetSocketAddress(80), 0);
        server.createContext("/page", exchange -> {
            exchange.sendResponseHeaders(200, 50000);
            exchange.getResponseBody().write(new byte[50000]);
            exchange.close();
        });
        server.start();
    }
}
"""
PAGE = """<!doctype html><title>page</title>
<img src="/one.svg"><img src="/two.svg"><pre id="timings"></pre>
<script>
addEventListener("load", () => {
    const entries = performance.getEntriesByType("resource").map(
        e => `${e.name} ${e.transferSize} ${e.responseEnd}`);
    document.getElementById("timings").textContent = entries.join(", ");
});
</script>
"""
SVG = '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><!--{}--></svg>'
CHROMIUM = (
    "chromium --headless --no-zygote --no-sandbox --disable-gpu --in-process-gpu --disable-dev-shm-usage "
    "--user-data-dir=/tmp/profile --dump-dom http://server/index.html"
)
FETCH = ("curl", "-s", "-o", "/dev/null", "-w", "%{size_download} %{time_total}", "http://server/page")

LOOKS = """
import select, time
end, looks = time.monotonic() + 0.2, 0
while time.monotonic() < end:
    select.select([], [], [], 0)
    looks += 1
print(looks, time.monotonic() - end)
"""

Case = tuple[str, tuple[str, ...], str]
"""The server's command line, the client's command, and its output."""


def nginx(folder: Path, more: str = "") -> str:
    (folder / "nginx.conf").write_text(NGINX.format(folder=folder, more=more), encoding="utf-8")
    return f"exec nginx -e stderr -c {folder}/nginx.conf -p {folder}"


def pythons_server(folder: Path) -> str:
    return f"cd {folder}; exec python3 -m http.server 80 2>&1"


def curl(folder: Path) -> Case:
    return nginx(folder), FETCH, f"{BYTES} "


def wget(folder: Path) -> Case:
    return pythons_server(folder), ("sh", "-c", "wget -q -O - http://server/page | wc -c"), f"{BYTES}"


def iperf3(*options: str) -> Callable[[Path], Case]:
    command = ("iperf3", "-c", "server", "-t", "3", *options)
    return lambda _: ("exec iperf3 -s", command, r"bits/sec.*receiver")


def ssh(folder: Path) -> Case:
    for key in ("key", "host"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / key], check=True)
    own = f"-o AuthorizedKeysFile={folder}/key.pub -o StrictModes=no -o UsePAM=no -o PidFile=none"
    server = f"mkdir -p /run/sshd; exec /usr/sbin/sshd -D -e -f /dev/null -h {folder}/host {own}"
    options = f"-i {folder}/key -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"
    return server, ("sh", "-c", f"ssh {options} server cat {folder}/page | wc -c"), f"{BYTES}"


def go(folder: Path) -> Case:
    (folder / "get.go").write_text(GO, encoding="utf-8")
    own = {**os.environ, "GOCACHE": str(folder / "cache"), "CGO_ENABLED": "0", "GOFLAGS": ""}
    subprocess.run(["go", "build", "-o", "get", "get.go"], cwd=folder, env=own, check=True)
    return nginx(folder), (str(folder / "get"),), f"{BYTES}"


def java(folder: Path) -> Case:
    for name, source in {"Client": JAVA_CLIENT, "Server": JAVA_SERVER}.items():
        (folder / f"{name}.java").write_text(source, encoding="utf-8")
    subprocess.run(["javac", "-d", folder, folder / "Client.java", folder / "Server.java"], check=True)
    return f"exec java -cp {folder} Server", ("java", "-cp", str(folder), "Client"), f"{BYTES}"


def chromium(folder: Path) -> Case:
    (folder / "index.html").write_text(PAGE, encoding="utf-8")
    for name in ("one", "two"):
        (folder / f"{name}.svg").write_text(SVG.format("x" * 20_000), encoding="utf-8")
    return (
        nginx(folder),
        tuple(shlex.split(CHROMIUM)),
        r"one\.svg 20\d+ \d+\.?\d*, http://server/two\.svg 20\d+ \d+",
    )


CASES = {
    "curl from nginx": curl,
    "wget from python's server": wget,
    "iperf3 up": iperf3(),
    "iperf3 down": iperf3("-R"),
    "iperf3 up, UDP": iperf3("-u", "-b", "200k"),
    "iperf3 down, UDP": iperf3("-u", "-b", "200k", "-R"),
    "ssh": ssh,
    "a Go program": go,
    "Java, client and server": java,
    "chromium": chromium,
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    files = tmp_path / "files"
    files.mkdir()
    (files / "page").write_bytes(bytes(BYTES))
    return files


def run_twice(capture: Path, server: str, command: tuple[str, ...]) -> str:
    """Run a command behind `umts` twice; return its output."""
    runs = []
    for number in (1, 2):
        to = capture.with_name(f"{capture.name}-{number}")
        arguments = (
            "--engine",
            "kernel",
            "--link",
            "umts",
            "--server",
            server,
            "--pcap",
            str(to),
            "--",
            *command,
        )
        done = run_shell(*arguments, timeout_s=LIMIT_S)
        assert done.returncode == 0, done.stderr
        runs.append((done.stdout, digests(to)))
    assert runs[0] == runs[1]
    return runs[0][0]


@pytest.mark.long(by_hand="needs curl, wget, iperf3, OpenSSH, Go and Java, which CI does not install")
@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("name", CASES)
def test_a_program_says_and_sends_the_same_twice(name: str, folder: Path, tmp_path: Path) -> None:
    server, command, reply = CASES[name](folder)
    outcome = run_twice(tmp_path / "capture", server, command)
    assert re.search(reply, outcome), outcome


@pytest.mark.usefixtures("kernel")
def test_a_certificate_is_valid_on_the_guests_date_and_tls_repeats(folder: Path, tmp_path: Path) -> None:
    """The authority and its certificate are made in the guest, by its date; keys follow from the seed."""
    assert shutil.which("openssl"), "this test makes a certificate with openssl: install it"
    key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes"
    line = (
        f"cd {folder}; exec 2>tls.log; openssl req -x509 {key} -keyout ca.key -out ca.pem -days 9 "
        f"-subj /CN=authority; openssl req {key} -keyout server.key -out server.csr -subj /CN=server "
        "-addext subjectAltName=DNS:server; openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key "
        "-CAcreateserial -copy_extensions copyall -days 9 -out server.pem; "
        f"{nginx(folder, TLS.format(folder=folder))}"
    )
    secure = (*FETCH[:-1], "--cacert", f"{folder}/ca.pem", "https://server/page")
    assert run_twice(tmp_path / "capture", line, secure).startswith(f"{BYTES} ")


@pytest.mark.usefixtures("kernel")
def test_waiting_by_looking_again_and_again_takes_few_calls_and_ends_in_time() -> None:
    done = run_shell("--engine", "kernel", "--link", "lte", "--quiet", "--", *program(LOOKS))
    assert done.returncode == 0, done.stderr
    looks, late_s = map(float, done.stdout.split())
    # Two calls each; after the first thousand calls, 10 us each. Otherwise a call takes a quarter of a
    # microsecond.
    assert 0.2 / 40e-6 < looks < 500 + 0.2 / 20e-6
    assert late_s < 40e-6


@pytest.mark.usefixtures("kernel")
def test_what_the_guest_says_of_its_memory_and_its_interrupts_repeats() -> None:
    """Java derives the size of its heap from these files, dropbear its random numbers."""
    show = "cat /proc/meminfo /proc/vmstat /proc/interrupts /proc/stat /proc/timer_list /proc/self/mounts"
    runs = [
        run_shell("--engine", "kernel", "--link", "lte", "--quiet", "--", "sh", "-c", show) for _ in range(2)
    ]
    assert "MemTotal" in runs[0].stdout
    assert runs[0].stdout == runs[1].stdout
