-- uses: prelude chunks
-- keys: units
-- args: unit token unique chunks

-- Begins the upload of a snapshot. A unit has one upload: the chunks of an unfinished one are removed.
if not holds(unit, token) then
  return superseded
end
local abandoned, size = fact(unit, 'upload'), fact(unit, 'upload_chunks')
if abandoned ~= unique then
  redis.call('HSET', units, unit .. ':upload', unique, unit .. ':upload_chunks', chunks)
  drop_chunks(unit, abandoned, size)
end
return {'ok'}
