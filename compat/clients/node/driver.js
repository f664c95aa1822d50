// What the JavaScript drivers share: one JSON object a line in, one a line out.
'use strict'

const readline = require('node:readline')

const dec = (text) => (text === null || text === undefined ? null : Buffer.from(text, 'base64'))
const enc = (data) => (data === null || data === undefined ? null : Buffer.from(data).toString('base64'))
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms))

// until waits for ok, looking every few milliseconds, at most ms.
async function until (ms, ok) {
  const end = Date.now() + ms
  while (!ok() && Date.now() < end) await sleep(10)
}

function words (e) {
  const all = []
  for (; e; e = e.cause) {
    all.push(e.type || e.apiId || e.code || '', e.message || String(e))
    for (const inner of e.errors || []) all.push(words(inner))
    if (e.cause === e) break
  }
  return all.join(' ')
}

function serve (ops) {
  let last = Promise.resolve()
  const lines = readline.createInterface({ input: process.stdin })
  lines.on('line', (line) => {
    last = last.then(async () => {
      const r = JSON.parse(line)
      let answer
      try {
        answer = (await ops[r.op](r)) || {}
      } catch (e) {
        console.error(e)
        answer = { error: words(e) }
      }
      process.stdout.write(JSON.stringify(answer) + '\n')
    })
  })
  lines.on('close', () => process.exit(0))
}

module.exports = { dec, enc, until, sleep, serve, words }
