-- ARGV: generator, token, unique, number of chunks. Makes room for an upload, the only one of its generator.
local g, token, unique, chunks = unpack(ARGV)
if not holds(g, token) then
  return superseded
end
local abandoned = redis.call('HGET', uploads, g)
local entry = unique .. ' ' .. chunks
if abandoned ~= entry then
  redis.call('HSET', uploads, g, entry)
  drop(g, abandoned)
end
return {'ok'}
