'use strict'

const fs = require('node:fs')
const path = require('node:path')

const artifact = path.join(process.env.STAND_IN, 'artifacts', process.env.INPUT_NAME)
fs.cpSync(artifact, path.join(process.env.GITHUB_WORKSPACE, process.env.INPUT_PATH), { recursive: true })
