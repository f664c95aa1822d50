"""Driver of kcat, which is librdkafka of the distribution. It has no admin
requests: topics are made with confluent-kafka."""

import ctypes
import re
import signal
import subprocess
import sys
import threading
import time

import confluent

from driver import dec, record, serve

BOOTSTRAP = sys.argv[1]
BASE = ["kcat", "-b", BOOTSTRAP, "-X", "broker.address.family=v4"]
# Stand between messages and between key and value; no test produces them.
MESSAGE, KEY = b"\x01\x02\x03\x04\x05", b"\x05\x04\x03\x02\x01"
# What a message looks like on the output: sizes first, so that anything can be in it.
FORMAT = "%p %o %T %K %S\\n%k%s"
members = {}


def die_along():
    """Has a kcat end with this driver, however that ends (Linux)."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def text(delimiter):
    return "".join(f"\\x{c:02x}" for c in delimiter)


def hello(_):
    out = subprocess.run(["kcat", "-V"], capture_output=True, text=True).stdout
    return {"client": "kcat", "version": re.search(r"Version (\S+)", out)[1] + " (librdkafka " + re.search(r"librdkafka (\S+)", out)[1] + ")"}


def ends(topic, partition):
    out = subprocess.run(BASE + ["-Q", "-t", f"{topic}:{partition}:-1"], capture_output=True, text=True)
    found = re.search(r"offset (\d+)", out.stdout)
    return int(found[1]) if found else 0


def produce(r):
    acks = []
    for x in runs(r["records"]):
        acks += send(r, x)
    return {"acks": acks}


def runs(records):
    """Splits records where partition, or what is null, changes."""
    out = []
    for x in records:
        kind = (x.get("p", 0), x.get("k") is None, x.get("v") is None)
        if not out or out[-1][0] != kind:
            out.append((kind, []))
        out[-1][1].append(x)
    return out


def send(r, run):
    (partition, no_key, no_value), records = run
    argv = BASE + ["-P", "-t", r["topic"], "-p", str(partition), "-D", text(MESSAGE), "-X", "linger.ms=50", "-X", "message.timeout.ms=15000",
                   "-X", "message.max.bytes=20000000", "-z", r.get("codec") or "none", "-X", f"enable.idempotence={str(bool(r.get('idempotent'))).lower()}"]
    if not no_key:
        argv += ["-K", text(KEY)]
    if no_value:
        argv += ["-Z"]
    data = MESSAGE.join((b"" if no_key else dec(x["k"]) + KEY) + (dec(x.get("v")) or b"") for x in records)
    p = subprocess.run(argv, input=data, capture_output=True)
    if p.returncode != 0 or b"Delivery failed" in p.stderr:
        return [{"error": p.stderr.decode(errors="replace")}] * len(records)
    # kcat is told offsets and does not tell them: they are the last ones.
    first = ends(r["topic"], partition) - len(records)
    return [{"p": partition, "o": first + i} for i in range(len(records))]


def parse(stream):
    """Reads one message of FORMAT; None at the end."""
    head = stream.readline()
    if not head:
        return None
    p, o, t, klen, vlen = (int(n) for n in head.split())
    k = None if klen < 0 else stream.read(klen)
    v = None if vlen < 0 else stream.read(vlen)
    return record(p, o, t, k, v, [])


def consume(r):
    where = {"earliest": "beginning", "latest": "end"}.get(r["from"], r["from"])
    if where.startswith("ts:"):
        where = "s@" + where[3:]
    argv = BASE + ["-C", "-t", r["topic"], "-p", str(r["partition"]), "-o", where, "-c", str(r["count"]), "-q", "-u", "-f", FORMAT,
                   "-X", "fetch.message.max.bytes=10000000", "-X", "auto.offset.reset=" + (r.get("reset") or "error")]
    p = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    watch = threading.Timer(r.get("timeout", 15000) / 1000, p.kill)
    watch.start()
    got = []
    while (m := parse(p.stdout)) is not None:
        got.append(m)
    watch.cancel()
    p.wait()
    return {"records": got}


def offsets(r):
    out = {}
    for name, at in (("start", -2), ("end", -1), ("at", r.get("t", 0))):
        p = subprocess.run(BASE + ["-Q", "-t", f"{r['topic']}:{r['partition']}:{at}"], capture_output=True, text=True)
        if p.returncode != 0:
            return {"error": p.stderr}
        out[name] = int(re.search(r"offset (-?\d+)", p.stdout)[1])
    return out


class Member:
    """A kcat in a group, and what it has printed."""

    def __init__(self, r):
        argv = BASE + ["-G", r["group"], "-u", "-f", FORMAT, "-X", "auto.offset.reset=earliest", "-X", "session.timeout.ms=4000",
                       "-X", "heartbeat.interval.ms=500", "-X", "topic.metadata.refresh.interval.ms=1000", "-X", "auto.commit.interval.ms=200",
                       "-X", "partition.assignment.strategy=" + (r.get("strategy") or "range")]
        if r.get("instance"):
            argv += ["-X", "group.instance.id=" + r["instance"]]
        argv.append("^" + r["pattern"] if r.get("pattern") else r["topic"])
        self.p = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=die_along)
        self.lock, self.got, self.owns = threading.Lock(), [], set()
        for read in (self.messages, self.said):
            threading.Thread(target=read, daemon=True).start()

    def messages(self):
        while (m := parse(self.p.stdout)) is not None:
            with self.lock:
                self.got.append(m)

    def said(self):
        for line in self.p.stderr:
            line = line.decode(errors="replace")
            sys.stderr.write(line)
            m = re.search(r"rebalanced.*?: (.*)", line)
            if not m:
                continue
            parts = {(t, int(n)) for t, n in re.findall(r"(\S+) \[(\d+)\]", m[1])}
            with self.lock:
                if "revoke" in line:
                    self.owns -= parts
                elif "incremental" in line:
                    self.owns |= parts
                else:
                    self.owns = parts


def join(r):
    members[r["member"]] = Member(r)


def poll(r):
    m = members[r["member"]]
    end = time.monotonic() + r["timeout"] / 1000
    while time.monotonic() < end:
        with m.lock:
            if len(m.got) >= r["count"]:
                break
        time.sleep(0.02)
    with m.lock:
        got, m.got = m.got[:r["count"]], m.got[r["count"]:]
        return {"records": got, "assignment": sorted([t, n] for t, n in m.owns)}


def commit(_):
    """kcat commits by itself what it has printed."""


def leave(r):
    m = members.pop(r["member"])
    m.p.terminate()
    m.p.wait(20)


serve(dict(hello=hello, produce=produce, consume=consume, offsets=offsets, create=confluent.create, delete=confluent.delete, join=join, poll=poll, commit=commit,
           committed=confluent.committed, leave=leave, topics=confluent.topics))
