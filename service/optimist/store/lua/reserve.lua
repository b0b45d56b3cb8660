-- other keys: index
-- args: name namespace limit

-- Adds a name to the index, or renews its time. namespace: with its slash, '' for the default one. Answers 1 if the
-- name has a place now, 0 if its namespace has `limit` others.
if not redis.call('ZSCORE', index, name) and redis.call('ZCARD', index) >= tonumber(limit) then
  local others = 0
  for _, other in ipairs(redis.call('ZRANGE', index, 0, -1)) do
    if (other:match('^.*/') or '') == namespace then
      others = others + 1
    end
  end
  if others >= tonumber(limit) then
    return {'ok', 0}
  end
end
local time = redis.call('TIME')
redis.call('ZADD', index, string.format('%d.%06d', time[1], time[2]), name)
return {'ok', 1}
