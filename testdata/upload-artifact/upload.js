'use strict'

const fs = require('node:fs')
const path = require('node:path')

const folder = process.env.INPUT_PATH
const hidden = folder.split('/').some((segment) => /^\.[^.]/.test(segment))
if (hidden && process.env['INPUT_INCLUDE-HIDDEN-FILES'] !== 'true') {
  console.log(`::error::${folder} is hidden, and nothing of it is taken`)
  process.exitCode = 1
} else {
  const artifact = path.join(process.env.STAND_IN, 'artifacts', process.env.INPUT_NAME)
  fs.cpSync(path.join(process.env.GITHUB_WORKSPACE, folder), artifact, { recursive: true, errorOnExist: true, force: false })
}
