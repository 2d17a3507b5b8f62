"""A server on this machine that speaks the hub's API: the few requests that its real clients make to read."""

import hashlib
import json
import re
import threading
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

OLD, NEW = "a" * 40, "b" * 40
BRANCHES = {None: NEW, "main": NEW, "refs/convert/parquet": OLD}
TOKEN = "hf_secret_of_the_test"

_ROUTES = {
    "access": re.compile(r"/api/(models|datasets)/([^/]+/[^/]+)/auth-check()"),
    "info": re.compile(r"/api/(models|datasets)/([^/]+/[^/]+)(?:/revision/(.+))?"),
    "tree": re.compile(r"/api/(models|datasets)/([^/]+/[^/]+)/tree/([^/]+)(?:/(.*))?"),
    "paths": re.compile(r"/api/(models|datasets)/([^/]+/[^/]+)/paths-info/([^/]+)"),
    "file": re.compile(r"/(datasets/)?([^/]+/[^/]+)/resolve/([^/]+)/(.*)"),
}


class Hub(ThreadingHTTPServer):
    """``repositories``: (type, name) -> revision -> path -> bytes; ``gated``: names whose files need the token.

    ``faults``: (kind of request, method) -> statuses that such requests get, one each, before they are answered.
    ``cuts``: path -> bytes of its content after which the connection is cut, one each time it is asked for.
    ``seen``: method, path and authorization of every request; ``ranges``: path and first byte of resumed downloads.
    """

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.repositories, self.gated, self.seen = {}, set(), []
        self.faults, self.cuts, self.ranges = {}, {}, []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def address(self):
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    """The few requests that huggingface_hub and datasets make to read a repository."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        pass

    def do_HEAD(self):
        self.answer()

    def do_GET(self):
        self.answer()

    def do_POST(self):
        self.answer()

    def answer(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = urllib.parse.unquote(urllib.parse.urlsplit(self.path).path)
        self.server.seen.append((self.command, path, self.headers.get("Authorization")))
        for kind in ("access", "tree", "paths", "file", "info"):
            match = _ROUTES[kind].fullmatch(path)
            if match:
                statuses = self.server.faults.get((kind, self.command))
                if statuses:
                    return self.send(statuses.pop(0), b"{}", {"Retry-After": "0"})
                return self.repository(kind, *match.groups(), body=body)
        return self.send(404, b"{}")

    def repository(self, kind, repo_type, name, revision, path="", body=b""):
        repo_type = (repo_type or "models").strip("/")
        revisions = self.server.repositories.get((repo_type, name))
        if revisions is None:
            return self.fail(401, "RepoNotFound")
        revision = BRANCHES.get(revision or None, revision)
        if revision not in revisions:
            return self.fail(404, "RevisionNotFound")
        files = revisions[revision]
        if kind in ("file", "access"):
            if name in self.server.gated and self.headers.get("Authorization") != f"Bearer {TOKEN}":
                return self.fail(403 if self.headers.get("Authorization") else 401, "GatedRepo")
            if kind == "access":
                return self.send(200, b"{}")
            if path not in files:
                return self.fail(404, "EntryNotFound")
            return self.send_file(path, files[path], revision)
        return self.send_json(getattr(self, kind)(name, revision, files, path, body))

    def info(self, name, revision, files, path, body):
        siblings = [{"rfilename": file, **_blob(file, content)} for file, content in files.items()]
        return {"id": name, "sha": revision, "siblings": siblings, "private": False}

    def tree(self, name, revision, files, path, body):
        entries = _entries(files)
        return [entry for entry in entries if not path or entry["path"].startswith(f"{path}/")]

    def paths(self, name, revision, files, path, body):
        wanted = urllib.parse.parse_qs(body.decode())["paths"]
        return [entry for entry in _entries(files) if entry["path"] in wanted]

    def send_file(self, path, content, revision):
        headers = {"ETag": f'"{_oid(content)}"', "X-Repo-Commit": revision, "Accept-Ranges": "bytes"}
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range") or "")
        if not asked:
            return self.send(200, content, headers, cut=self.next_cut(path))
        first, last = int(asked[1]), int(asked[2] or len(content) - 1)
        self.server.ranges.append((path, first))
        headers["Content-Range"] = f"bytes {first}-{last}/{len(content)}"
        return self.send(206, content[first : last + 1], headers, cut=self.next_cut(path))

    def next_cut(self, path):
        cuts = self.server.cuts.get(path) if self.command == "GET" else None
        return cuts.pop(0) if cuts else None

    def send_json(self, content):
        self.send(200, json.dumps(content).encode(), {"Content-Type": "application/json"})

    def fail(self, status, code):
        self.send(status, b"{}", {"X-Error-Code": code, "X-Error-Message": code})

    def send(self, status, content, headers=None, cut=None):
        self.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content[:cut])
        self.close_connection = self.close_connection or cut is not None


def _blob(name, content):
    """Size and hashes as the hub lists them: weights are stored apart, by SHA-256."""
    facts = {"size": len(content), "blobId": hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()}
    if name.endswith(".safetensors"):
        facts["lfs"] = {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 130}
    return facts


def _oid(content):
    return hashlib.sha1(content).hexdigest()


def _entries(files):
    folders = sorted({parent.as_posix() for file in files for parent in Path(file).parents} - {"."})
    entries = [{"type": "directory", "path": folder, "oid": _oid(folder.encode()), "size": 0} for folder in folders]
    return entries + [
        {"type": "file", "path": file, "oid": _oid(content), "size": len(content)} for file, content in files.items()
    ]
