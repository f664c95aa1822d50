// Driver of @platformatic/kafka.
'use strict'

const { Admin, Consumer, Producer } = require('@platformatic/kafka')
const { dec, enc, until, serve } = require('./driver.js')

const BASE = { clientId: 'driver', bootstrapBrokers: [process.argv[2]], retries: 20, retryDelay: 100 }
const admin = new Admin(BASE)
const members = {}

const told = (m) => ({
  p: m.partition, o: Number(m.offset), t: Number(m.timestamp), k: enc(m.key), v: enc(m.value), h: [...m.headers].map(([k, v]) => [k.toString(), enc(v)])
})

// gather puts what a stream gives into a queue.
async function gather (consumer, options) {
  const queue = []
  const stream = await consumer.consume({ autocommit: false, maxWaitTime: 200, ...options })
  stream.on('data', (m) => queue.push(m))
  stream.on('error', (e) => console.error(e))
  return { stream, queue }
}

const reader = () => new Consumer({ ...BASE, groupId: 'reader-' + Math.random() })

async function list (r, timestamp) {
  const c = reader()
  try {
    const found = await c.listOffsets({ topics: [r.topic], partitions: { [r.topic]: [r.partition] }, timestamp: BigInt(timestamp) })
    return found.get(r.topic)[r.partition]
  } finally {
    await c.close(true)
  }
}

const ops = {
  hello: async () => ({ client: '@platformatic/kafka', version: require('./node_modules/@platformatic/kafka/package.json').version }),

  produce: async (r) => {
    const p = new Producer({ ...BASE, autocreateTopics: true })
    try {
      const messages = r.records.map((x) => ({
        topic: r.topic, partition: x.p, key: dec(x.k) ?? undefined, value: dec(x.v) ?? undefined, timestamp: x.t ? BigInt(x.t) : undefined,
        headers: new Map((x.h || []).map(([k, v]) => [Buffer.from(k), dec(v)]))
      }))
      const a = await p.send({ messages, acks: -1, compression: r.codec || 'none', idempotent: !!r.idempotent })
      const next = {}
      for (const o of a.offsets) next[o.partition] = Number(o.offset)
      return { acks: r.records.map((x) => ({ p: x.p, o: next[x.p]++ })) }
    } finally {
      await p.close()
    }
  },

  // This client consumes in groups only, so positions are given with the stream.
  consume: async (r) => {
    const c = reader()
    try {
      let options
      if (r.from === 'earliest' || r.from === 'latest') options = { mode: r.from }
      else {
        const offset = r.from.startsWith('ts:') ? await list(r, r.from.slice(3)) : BigInt(r.from)
        options = { mode: 'manual', offsets: [{ topic: r.topic, partition: r.partition, offset }] }
      }
      if (r.reset && r.reset !== 'error') options.fallbackMode = r.reset
      const { stream, queue } = await gather(c, { topics: [r.topic], maxBytesPerPartition: 10_000_000, ...options })
      let failed
      stream.on('error', (e) => { failed = e })
      await until(r.timeout || 15000, () => failed || queue.length >= r.count)
      if (failed) throw failed
      const got = queue.slice(0, r.count).map(told)
      await stream.close()
      return { records: got }
    } finally {
      await c.close(true)
    }
  },

  offsets: async (r) => ({ start: Number(await list(r, -2)), end: Number(await list(r, -1)), at: r.t ? Number(await list(r, r.t)) : 0 }),

  create: async (r) => {
    const configs = Object.entries(r.configs || {}).map(([name, value]) => ({ name, value }))
    await admin.createTopics({ topics: [r.topic], partitions: r.partitions, replicas: r.replication, configs })
  },
  delete: async (r) => admin.deleteTopics({ topics: [r.topic] }),
  grow: async (r) => admin.createPartitions({ topics: [{ name: r.topic, count: r.partitions }] }),
  alter: async (r) => {
    const configs = Object.entries(r.configs).map(([name, value]) => ({ name, value, configOperation: 0 }))
    await admin.incrementalAlterConfigs({ resources: [{ resourceType: 2, resourceName: r.topic, configs }] })
  },
  configs: async (r) => {
    const [a] = await admin.describeConfigs({ resources: [{ resourceType: 2, resourceName: r.topic }] })
    return { configs: Object.fromEntries(a.configs.map((c) => [c.name, c.value])) }
  },
  topics: async () => {
    const names = await admin.listTopics()
    const m = await admin.metadata({ topics: names, forceUpdate: true })
    return { topics: Object.fromEntries([...m.topics].map(([name, t]) => [name, t.partitionsCount])) }
  },

  join: async (r) => {
    const group = r.protocol === 'consumer'
      ? { groupProtocol: 'consumer' }
      : { sessionTimeout: 4000, rebalanceTimeout: 10000, heartbeatInterval: 500 }
    if (r.instance) group.groupInstanceId = r.instance
    const c = new Consumer({ ...BASE, groupId: r.group, metadataMaxAge: 1000, ...group })
    const m = { consumer: c, queue: [], taken: {} }
    members[r.member] = m
    // Joining waits for the group, which may wait for another member.
    gather(c, { topics: [r.topic], mode: 'committed', fallbackMode: 'earliest' }).then((g) => Object.assign(m, g), (e) => { m.failed = e })
  },
  poll: async (r) => {
    const m = members[r.member]
    await until(r.timeout, () => m.failed || m.queue.length >= r.count)
    if (m.failed) throw m.failed
    const got = m.queue.splice(0, r.count)
    for (const x of got) m.taken[x.topic + '\0' + x.partition] = { topic: x.topic, partition: x.partition, offset: x.offset + 1n, leaderEpoch: 0 }
    const owns = (m.consumer.assignments || []).flatMap((a) => a.partitions.map((p) => [a.topic, p])).sort()
    return { records: got.map(told), assignment: m.stream ? owns : [] }
  },
  commit: async (r) => { await members[r.member].consumer.commit({ offsets: Object.values(members[r.member].taken) }) },
  committed: async (r) => {
    const [g] = await admin.listConsumerGroupOffsets({ groups: [r.group] })
    const t = g.topics.find((x) => x.name === r.topic)
    return { offset: t ? Number(t.partitions.find((x) => x.partitionIndex === r.partition).committedOffset) : -1 }
  },
  leave: async (r) => {
    const m = members[r.member]
    delete members[r.member]
    if (m.stream) await m.stream.close()
    await m.consumer.close(true)
  }
}

serve(ops)
