// client.mjs save|restore KEY PATH: what the official steps actions/cache/save and actions/cache/restore do, by the
// package that they are made of. The outcome is the last line, as JSON: the cache's id, or the key that was restored.
import {restoreCache, saveCache} from '@actions/cache'

const [mode, key, path] = process.argv.slice(2)
const outcome = mode === 'save' ? await saveCache([path], key) : await restoreCache([path], key)
console.log(JSON.stringify(outcome ?? null))
