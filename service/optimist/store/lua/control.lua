-- ARGV: names and values in turn. An empty value takes the name away.
for i = 1, #ARGV, 2 do
  if ARGV[i + 1] ~= '' then
    redis.call('HSET', controls, ARGV[i], ARGV[i + 1])
  end
end
for i = 1, #ARGV, 2 do
  if ARGV[i + 1] == '' then
    redis.call('HDEL', controls, ARGV[i])
  end
end
changed()
return {'ok'}
