-- uses: prelude chunks
-- keys: uploads
-- args: unit token unique chunks

-- Begins the upload of a snapshot. A unit has one upload: the chunks of an unfinished one are removed.
if not holds(unit, token) then
  return superseded
end
local abandoned = redis.call('HGET', uploads, unit)
local entry = unique .. ' ' .. chunks
if abandoned ~= entry then
  redis.call('HSET', uploads, unit, entry)
  drop(unit, abandoned)
end
return {'ok'}
