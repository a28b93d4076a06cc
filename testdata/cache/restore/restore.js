'use strict'

require('../store.js').restore()
