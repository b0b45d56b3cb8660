-- KEYS: index of names. ARGV: name, namespace with its slash ('' for the default one), most names of a namespace.
-- Answers 1 if the name has a place from now on, new or anew; 0 if its namespace has as many others as it may.
local index = KEYS[1]
local name, namespace, most = ARGV[1], ARGV[2], tonumber(ARGV[3])
if not redis.call('ZSCORE', index, name) and redis.call('ZCARD', index) >= most then
  local others = 0
  for _, other in ipairs(redis.call('ZRANGE', index, 0, -1)) do
    if (other:match('^.*/') or '') == namespace then
      others = others + 1
    end
  end
  if others >= most then
    return {'ok', 0}
  end
end
local time = redis.call('TIME')
redis.call('ZADD', index, string.format('%d.%06d', time[1], time[2]), name)
return {'ok', 1}
