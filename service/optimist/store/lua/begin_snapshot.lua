-- uses: prelude chunks
-- keys: uploads
-- args: generator token unique chunks

-- Begins the upload of a snapshot. A generator has one upload: the chunks of an unfinished one are removed.
if not holds(generator, token) then
  return superseded
end
local abandoned = redis.call('HGET', uploads, generator)
local entry = unique .. ' ' .. chunks
if abandoned ~= entry then
  redis.call('HSET', uploads, generator, entry)
  drop(generator, abandoned)
end
return {'ok'}
