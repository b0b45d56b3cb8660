-- KEYS: reference, upload (a whole reference under a key that expires). Answers 1 if kept, 0 if it stood there already.
local reference, upload = unpack(KEYS)
local standing = redis.call('HGET', reference, 'digest')
if standing == ARGV[1] then
  redis.call('UNLINK', upload)
  return {'ok', 0}
elseif standing then
  redis.call('UNLINK', upload)
  return {'conflict', 'a reference of this name exists with other contents'}
elseif redis.call('PERSIST', upload) == 0 then
  return {'not-found', 'the upload took too long and has expired'}
end
redis.call('RENAME', upload, reference)
return {'ok', 1}
