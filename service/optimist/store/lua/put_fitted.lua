-- ARGV: payload, SHA-1 of the config it was made under. Answers what stands, which is what was put first.
if redis.sha1hex(redis.call('GET', config)) ~= ARGV[2] then
  return {'not-found', 'the experiment was deleted and made again since'}
end
redis.call('SETNX', fitted, ARGV[1])
return {'ok', redis.call('GET', fitted)}
