-- other keys: reference upload
-- args: digest

-- Makes an upload, a whole reference under a key that expires, the reference. Answers 1 if kept, 0 if it existed
-- already.
local standing = redis.call('HGET', reference, 'digest')
if standing == digest then
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
