'use strict'

const fs = require('node:fs')
const { randomUUID } = require('node:crypto')

const escape = (text) => text.replaceAll('%', '%25').replaceAll('\r', '%0D').replaceAll('\n', '%0A')

const core = {
  setSecret: (secret) => console.log(`::add-mask::${escape(secret)}`),
  setOutput: (name, value) => {
    const delimiter = `end-${randomUUID()}`
    fs.appendFileSync(process.env.GITHUB_OUTPUT, `${name}<<${delimiter}\n${value}\n${delimiter}\n`)
  },
}

const AsyncFunction = (async () => {}).constructor
new AsyncFunction('core', process.env.INPUT_SCRIPT)(core).catch((error) => {
  console.log(`::error::${escape(String(error))}`)
  process.exitCode = 1
})
