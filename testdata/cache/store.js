'use strict'

const fs = require('node:fs')
const path = require('node:path')

const input = (name) => (process.env[`INPUT_${name.toUpperCase()}`] ?? '').trim()

// entry is where the paths lie under the key. A path is part of an entry's identity, as it is in the service.
const entry = () => path.join(process.env.STAND_IN, 'cache', input('key'), encodeURIComponent(input('path')))

const paths = () => input('path').split('\n').map((line) => line.trim())

exports.restore = () => {
  const hit = fs.existsSync(entry())
  for (const name of hit ? paths() : []) {
    fs.cpSync(path.join(entry(), name), path.join(process.env.GITHUB_WORKSPACE, name), { recursive: true })
  }
  console.log(hit ? `Restored ${input('key')}` : `There is no entry ${input('key')}`)
  fs.appendFileSync(process.env.GITHUB_OUTPUT, `cache-hit=${hit ? 'true' : ''}\n`)
  if (!hit && input('fail-on-cache-miss') === 'true') process.exitCode = 1
}

// save publishes an entry whole, and never changes one.
exports.save = () => {
  if (fs.existsSync(entry())) return
  const made = fs.mkdtempSync(path.join(process.env.STAND_IN, 'saving-'))
  for (const name of paths()) {
    fs.cpSync(path.join(process.env.GITHUB_WORKSPACE, name), path.join(made, name), { recursive: true })
  }
  fs.mkdirSync(path.dirname(entry()), { recursive: true })
  fs.renameSync(made, entry())
  console.log(`Saved ${input('key')}`)
}
