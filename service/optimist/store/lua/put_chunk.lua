-- ARGV: generator, unique, number of the chunk, seconds it lasts, bytes. Answers the SHA-1 of what stands there.
local g, unique, i, seconds, bytes = unpack(ARGV)
local upload = redis.call('HGET', uploads, g)
if not upload or upload:match('^%S+') ~= unique then
  return {'superseded', 'another upload of this generator has begun'}
end
local key = chunk_key(g, unique, i)
redis.call('SET', key, bytes, 'EX', seconds)
return {'ok', redis.sha1hex(redis.call('GET', key))}
