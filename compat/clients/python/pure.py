"""Driver of kafka-python."""

import collections
import concurrent.futures
import logging
import sys
import threading
import time

import kafka
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, NewTopic
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.structs import OffsetAndMetadata

from driver import dec, record, serve

logging.basicConfig(format="%(asctime)s %(name)s %(message)s")
logging.getLogger("kafka.coordinator").setLevel(logging.INFO)

BASE = {"bootstrap_servers": sys.argv[1]}
admin_client = None
members = {}


def admin():
    global admin_client
    if admin_client is None:
        admin_client = KafkaAdminClient(**BASE)
    return admin_client


def hello(_):
    return {"client": "kafka-python", "version": kafka.__version__}


def produce(r):
    codec = r.get("codec") or "none"
    p = KafkaProducer(
        compression_type=None if codec == "none" else codec, enable_idempotence=bool(r.get("idempotent")), acks="all", linger_ms=50,
        max_request_size=20_000_000, batch_size=1 << 20, delivery_timeout_ms=15000, request_timeout_ms=10000, **BASE)
    try:
        futures = [p.send(r["topic"], value=dec(x.get("v")), key=dec(x.get("k")), headers=[(k, dec(v)) for k, v in x.get("h") or []],
                          partition=x.get("p"), timestamp_ms=x.get("t") or None) for x in r["records"]]
        p.flush(20)
        out = []
        for f in futures:
            try:
                m = f.get(20)
                out.append({"p": m.partition, "o": m.offset})
            except kafka.errors.KafkaError as e:
                out.append({"error": f"{type(e).__name__} {e}"})
        return {"acks": out}
    finally:
        p.close()


def told(m):
    return record(m.partition, m.offset, m.timestamp, m.key, m.value, m.headers)


def consume(r):
    c = KafkaConsumer(auto_offset_reset={"error": "none"}.get(r.get("reset", "error"), r.get("reset")), enable_auto_commit=False,
                      allow_auto_create_topics=False, max_partition_fetch_bytes=10_000_000, **BASE)
    try:
        tp, where = TopicPartition(r["topic"], r["partition"]), r["from"]
        c.assign([tp])
        if where == "earliest":
            c.seek_to_beginning(tp)
        elif where == "latest":
            c.seek_to_end(tp)
            c.position(tp)
        elif where.startswith("ts:"):
            c.seek(tp, c.offsets_for_times({tp: int(where[3:])})[tp].offset)
        else:
            c.seek(tp, int(where))
        got, end = [], time.monotonic() + r.get("timeout", 15000) / 1000
        while len(got) < r["count"] and time.monotonic() < end:
            for batch in c.poll(timeout_ms=200, max_records=r["count"] - len(got)).values():
                got += [told(m) for m in batch]
        return {"records": got}
    finally:
        c.close()


def offsets(r):
    c, tp = KafkaConsumer(**BASE), TopicPartition(r["topic"], r["partition"])
    try:
        out = {"start": c.beginning_offsets([tp])[tp], "end": c.end_offsets([tp])[tp]}
        if "t" in r:
            out["at"] = c.offsets_for_times({tp: r["t"]})[tp].offset
        return out
    finally:
        c.close()


def create(r):
    admin().create_topics([NewTopic(r["topic"], r["partitions"], r["replication"], topic_configs=r.get("configs") or {})])


def delete(r):
    admin().delete_topics([r["topic"]])


def grow(r):
    admin().create_partitions({r["topic"]: r["partitions"]})


def alter(r):
    done = admin().alter_configs([ConfigResource(ConfigResourceType.TOPIC, r["topic"], configs=r["configs"])])
    result = next(iter(done.values()))[r["topic"]]
    if result not in (None, "OK"):
        raise RuntimeError(result)


def configs(r):
    got = admin().describe_configs([ConfigResource(ConfigResourceType.TOPIC, r["topic"])], config_filter="all")
    found = next(iter(got.values()))[r["topic"]]
    if not found:
        raise LookupError("no settings; the client doesn't say why")
    return {"configs": {k: v["value"] for k, v in found.items()}}


def topics(_):
    return {"topics": {t["name"]: len(t["partitions"]) for t in admin().describe_topics()}}


class Member(kafka.ConsumerRebalanceListener):
    """A consumer that is polled all the time, by a thread of its own: the client gives up a join that lasts longer than the poll it began in."""

    def __init__(self, consumer, subscribe):
        self.consumer, self.lock, self.tasks = consumer, threading.Condition(), collections.deque()
        self.records, self.owns, self.next, self.failed = [], [], {}, None
        subscribe(consumer, self)
        threading.Thread(target=self.run, daemon=True).start()

    def on_partitions_revoked(self, revoked):
        with self.lock:
            self.records = [x for x in self.records if x[0] not in revoked]
            for tp in revoked:
                self.next.pop(tp, None)

    def on_partitions_lost(self, lost):
        self.on_partitions_revoked(lost)

    def on_partitions_assigned(self, assigned):
        pass

    def run(self):
        while True:
            with self.lock:
                task = self.tasks.popleft() if self.tasks else None
            if task is not None:
                if not task():
                    return
                continue
            try:
                batches = self.consumer.poll(timeout_ms=2000)
                with self.lock:
                    self.records += [(tp, m) for tp, batch in batches.items() for m in batch]
                    self.owns = self.consumer.assignment()
                    self.lock.notify_all()
            except Exception as e:  # told at the next poll
                with self.lock:
                    self.failed = e
                    self.lock.notify_all()

    def take(self, count, patience):
        """Up to so many records, and what the consumer owns."""
        end, got = time.monotonic() + patience, []
        with self.lock:
            while True:
                if self.failed is not None:
                    failed, self.failed = self.failed, None
                    raise failed
                n = min(count - len(got), len(self.records))
                for tp, m in self.records[:n]:
                    got.append(m)
                    self.next[tp] = m.offset + 1
                del self.records[:n]
                left = end - time.monotonic()
                if len(got) >= count or left <= 0:
                    return got, set(self.owns)
                self.lock.wait(left)

    def call(self, what, last=False):
        """Runs what on the consumer's thread, between two polls."""
        done = concurrent.futures.Future()

        def task():
            try:
                done.set_result(what(self.consumer))
            except Exception as e:
                done.set_exception(e)
            return not last

        with self.lock:
            self.tasks.append(task)
        return done.result(60)

    def commit(self):
        """Commits what was taken of what it still owns."""
        def commit(c):
            with self.lock:
                offsets = {tp: OffsetAndMetadata(o, "", -1) for tp, o in self.next.items()}
            if offsets:
                c.commit(offsets)
        self.call(commit)


def join(r):
    conf = dict(BASE)
    if r.get("instance"):
        conf["group_instance_id"] = r["instance"]
    assignor = CooperativeStickyAssignor if r.get("strategy") else RangePartitionAssignor
    c = KafkaConsumer(group_id=r["group"], auto_offset_reset="earliest", enable_auto_commit=False, session_timeout_ms=4000,
                      heartbeat_interval_ms=500, metadata_max_age_ms=1000, partition_assignment_strategy=[assignor], **conf)

    def subscribe(c, listener):
        if r.get("pattern"):
            c.subscribe(pattern="^" + r["pattern"], listener=listener)
        else:
            c.subscribe([r["topic"]], listener=listener)

    members[r["member"]] = Member(c, subscribe)


def poll(r):
    got, owns = members[r["member"]].take(r["count"], r["timeout"] / 1000)
    return {"records": [told(m) for m in got], "assignment": sorted([t.topic, t.partition] for t in owns)}


def commit(r):
    members[r["member"]].commit()


def committed(r):
    c = KafkaConsumer(group_id=r["group"], **BASE)
    try:
        return {"offset": c.committed(TopicPartition(r["topic"], r["partition"]))}
    finally:
        c.close(autocommit=False)


def leave(r):
    members.pop(r["member"]).call(lambda c: c.close(autocommit=False), last=True)


serve(dict(hello=hello, produce=produce, consume=consume, offsets=offsets, create=create, delete=delete, grow=grow, alter=alter,
           configs=configs, topics=topics, join=join, poll=poll, commit=commit, committed=committed, leave=leave))
