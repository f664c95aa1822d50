// Driver of kafkajs.
'use strict'

const { Kafka, CompressionTypes, logLevel } = require('kafkajs')
const { dec, enc, until, serve, words } = require('./driver.js')

const kafka = new Kafka({ clientId: 'driver', brokers: [process.argv[2]], logLevel: logLevel.NOTHING, retry: { retries: 6, initialRetryTime: 100 } })
const members = {}
let adminClient

async function admin () {
  if (!adminClient) {
    adminClient = kafka.admin()
    await adminClient.connect()
  }
  return adminClient
}

// headerList puts a map of headers into the order of their names' first use.
const headerList = (headers) => Object.entries(headers || {}).flatMap(([k, v]) => (Array.isArray(v) ? v : [v]).map((x) => [k, enc(x)]))

function headerMap (pairs) {
  const out = {}
  for (const [k, v] of pairs || []) {
    if (k in out) out[k] = [].concat(out[k], dec(v))
    else out[k] = dec(v)
  }
  return out
}

const told = (partition, m) => ({ p: partition, o: Number(m.offset), t: Number(m.timestamp), k: enc(m.key), v: enc(m.value), h: headerList(m.headers) })

const ops = {
  hello: async () => ({ client: 'kafkajs', version: require('kafkajs/package.json').version }),

  produce: async (r) => {
    const p = kafka.producer({ idempotent: !!r.idempotent, allowAutoTopicCreation: true })
    await p.connect()
    try {
      const messages = r.records.map((x) => ({ key: dec(x.k), value: dec(x.v), partition: x.p, timestamp: x.t ? String(x.t) : undefined, headers: headerMap(x.h) }))
      const compression = r.codec === 'gzip' ? CompressionTypes.GZIP : CompressionTypes.None
      const answers = await p.send({ topic: r.topic, messages, acks: -1, compression })
      const next = {}
      for (const a of answers) next[a.partition] = Number(a.baseOffset)
      return { acks: r.records.map((x) => ({ p: x.p, o: next[x.p]++ })) }
    } finally {
      await p.disconnect()
    }
  },

  // This client consumes in groups only, so positions are set by seeking.
  consume: async (r) => {
    const c = kafka.consumer({ groupId: 'reader-' + Math.random(), allowAutoTopicCreation: false, maxBytesPerPartition: 10_000_000, maxWaitTimeInMs: 200 })
    const got = []
    await c.connect()
    try {
      const latest = r.from === 'latest' || r.reset === 'latest'
      await c.subscribe({ topic: r.topic, fromBeginning: !latest })
      const joined = new Promise((resolve) => c.on(c.events.GROUP_JOIN, resolve))
      await c.run({
        autoCommit: false,
        eachMessage: async ({ partition, message }) => { if (partition === r.partition && seeked) got.push(told(partition, message)) }
      })
      let seeked = false
      await joined
      let offset = r.from
      if (r.from.startsWith('ts:')) {
        offset = (await (await admin()).fetchTopicOffsetsByTimestamp(r.topic, Number(r.from.slice(3)))).find((x) => x.partition === r.partition).offset
      } else if (r.from === 'earliest' || r.from === 'latest') {
        const o = (await (await admin()).fetchTopicOffsets(r.topic)).find((x) => x.partition === r.partition)
        offset = r.from === 'latest' ? o.high : o.low
      }
      seeked = true
      c.seek({ topic: r.topic, partition: r.partition, offset })
      await until(r.timeout || 15000, () => got.length >= r.count)
      return { records: got.slice(0, r.count) }
    } finally {
      await c.disconnect()
    }
  },

  offsets: async (r) => {
    const of = (list) => list.find((x) => x.partition === r.partition)
    const o = of(await (await admin()).fetchTopicOffsets(r.topic))
    const out = { start: Number(o.low), end: Number(o.high) }
    if (r.t) out.at = Number(of(await (await admin()).fetchTopicOffsetsByTimestamp(r.topic, r.t)).offset)
    return out
  },

  create: async (r) => {
    const configEntries = Object.entries(r.configs || {}).map(([name, value]) => ({ name, value }))
    const made = await (await admin()).createTopics({ waitForLeaders: false, topics: [{ topic: r.topic, numPartitions: r.partitions, replicationFactor: r.replication, configEntries }] })
    if (!made) throw new Error('the topic exists')
  },
  delete: async (r) => (await admin()).deleteTopics({ topics: [r.topic] }),
  grow: async (r) => { await (await admin()).createPartitions({ topicPartitions: [{ topic: r.topic, count: r.partitions }] }) },
  alter: async (r) => {
    const configEntries = Object.entries(r.configs).map(([name, value]) => ({ name, value }))
    await (await admin()).alterConfigs({ validateOnly: false, resources: [{ type: 2, name: r.topic, configEntries }] })
  },
  configs: async (r) => {
    const a = await (await admin()).describeConfigs({ includeSynonyms: false, resources: [{ type: 2, name: r.topic }] })
    return { configs: Object.fromEntries(a.resources[0].configEntries.map((e) => [e.configName, e.configValue])) }
  },
  topics: async () => ({ topics: Object.fromEntries((await (await admin()).fetchTopicMetadata()).topics.map((t) => [t.name, t.partitions.length])) }),

  join: async (r) => {
    const c = kafka.consumer({ groupId: r.group, sessionTimeout: 4000, heartbeatInterval: 500, rebalanceTimeout: 10000, metadataMaxAge: 1000, maxWaitTimeInMs: 100, allowAutoTopicCreation: false })
    const m = { consumer: c, queue: [], owns: [], taken: {} }
    members[r.member] = m
    await c.connect()
    c.on(c.events.GROUP_JOIN, ({ payload }) => {
      m.owns = Object.entries(payload.memberAssignment).flatMap(([t, ps]) => ps.map((p) => [t, p])).sort()
    })
    c.on(c.events.REBALANCING, () => { m.owns = [] })
    c.on(c.events.CRASH, ({ payload }) => console.error('crash', words(payload.error)))
    await c.subscribe({ topics: [r.pattern ? new RegExp('^' + r.pattern) : r.topic], fromBeginning: true })
    await c.run({
      autoCommit: false,
      eachMessage: async ({ topic, partition, message }) => { m.queue.push([topic, told(partition, message)]) }
    })
  },
  poll: async (r) => {
    const m = members[r.member]
    const end = Date.now() + r.timeout
    await until(r.timeout, () => m.queue.length >= r.count || Date.now() >= end)
    const got = m.queue.splice(0, r.count)
    for (const [t, x] of got) m.taken[t + '\0' + x.p] = { topic: t, partition: x.p, offset: String(x.o + 1) }
    return { records: got.map((x) => x[1]), assignment: m.owns }
  },
  commit: async (r) => { await members[r.member].consumer.commitOffsets(Object.values(members[r.member].taken)) },
  committed: async (r) => {
    const [t] = await (await admin()).fetchOffsets({ groupId: r.group, topics: [r.topic] })
    return { offset: Number(t.partitions.find((x) => x.partition === r.partition).offset) }
  },
  leave: async (r) => {
    await members[r.member].consumer.disconnect()
    delete members[r.member]
  }
}

serve(ops)
