'use strict'

require('./store.js').save()
