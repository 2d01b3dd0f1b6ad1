"""Servers of others in front of our contest server: the same digits and verdicts in other HTTP messages.

nginx turns the raw stream into chunks of its own, adds headers of its own, and answers submissions itself."""
import pathlib
import shutil
import socket
import subprocess
import time

from workshop.vm.ports import TCP, free_port

ROOT = pathlib.Path(__file__).resolve().parents[2]

NGINX_CONF = """
daemon off;
worker_processes 1;
pid {directory}/nginx.pid;
error_log {directory}/error.log;
events {{ worker_connections 64; }}
http {{
    access_log off;
    client_body_temp_path {directory}/body; proxy_temp_path {directory}/proxy; fastcgi_temp_path {directory}/fastcgi;
    uwsgi_temp_path {directory}/uwsgi; scgi_temp_path {directory}/scgi;
    tcp_nodelay on;
    server {{ listen {bind}:{input}; location / {{ proxy_pass http://{bind}:{our_input}; proxy_buffering off; }} }}
    server {{ listen {bind}:{output}; keepalive_requests 100000;
              location / {{ proxy_pass http://{bind}:{our_output}; proxy_http_version 1.1; }} }}
}}
"""


def nginx_program():
    """Returns the installed nginx, or the one that tools/setup.sh unpacked."""
    unpacked = ROOT / "build/third-party/nginx/usr/sbin/nginx"
    return shutil.which("nginx", path="/usr/sbin:/usr/bin") or (str(unpacked) if unpacked.exists() else None)


class Nginx:
    def __init__(self, bind, ports, directory):
        self.bind = bind
        self.ports = {kind: free_port(TCP) for kind in ("input", "output")}
        conf = pathlib.Path(directory) / "nginx.conf"
        conf.write_text(NGINX_CONF.format(directory=directory, bind=bind, our_input=ports["input"],
                                          our_output=ports["output"], **self.ports))
        program = nginx_program()
        assert program, "no nginx here: tools/setup.sh brings it"
        self.process = subprocess.Popen([program, "-p", directory, "-c", str(conf)], stderr=subprocess.PIPE, text=True)

    def __enter__(self):
        end = time.monotonic() + 60
        while True:
            try:
                socket.create_connection((self.bind, self.ports["output"]), timeout=60).close()
                return self
            except ConnectionRefusedError:
                assert self.process.poll() is None and time.monotonic() < end, self.process.stderr.read()
                time.sleep(0.05)

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(60)
        self.process.stderr.close()

    def endpoints(self, host):
        return [f"feed={host}:{self.ports['input']}", f"submit={host}:{self.ports['output']}"]


FRONTS = {"nginx": Nginx}
