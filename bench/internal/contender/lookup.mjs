// lookup.mjs lookup KEY PATH: what actions/cache/restore does with lookup-only, by the package that it is made of. The key
// that was found is the last line, as JSON.
import {restoreCache} from '@actions/cache'

const [, key, path] = process.argv.slice(2)
console.log(JSON.stringify((await restoreCache([path], key, undefined, {lookupOnly: true})) ?? null))
