-- uses: prelude chunks
-- args: unit unique number seconds bytes

-- Stores one chunk of an upload for `seconds`. Answers the SHA-1 of what is stored.
if fact(unit, 'upload') ~= unique then
  return {'superseded', 'another upload of this generator has begun'}
end
local key = chunk_key(unit, unique, number)
redis.call('SET', key, bytes, 'EX', seconds)
return {'ok', redis.sha1hex(redis.call('GET', key))}
