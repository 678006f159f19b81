# Unpacks pahole from pahole/*.deb, for the script that follows. It is from a newer Debian than the sandbox, so it runs with
# its own libraries and their loader.
for package in pahole/*.deb; do
    ar p "$package" data.tar.xz | tar --no-same-owner -xJ -C pahole
done
mkdir pahole/path
cat >pahole/path/pahole <<END
#!/bin/bash
exec $PWD/pahole/usr/lib64/ld-linux-x86-64.so.2 --library-path $PWD/pahole/usr/lib/x86_64-linux-gnu $PWD/pahole/usr/bin/pahole "\$@"
END
# The kernel's makefiles compile a library that reads the types, and call Python for a header that only BPF programs include.
cat >pahole/path/python3 <<'END'
#!/bin/bash
[[ $1 == */scripts/bpf_doc.py && $2 == --header ]]
END
chmod +x pahole/path/*
export PATH="$PWD/pahole/path:$PATH"
