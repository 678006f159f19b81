# Compiles test programs of the module after the programs: TESTS is `FILE=PACKAGE …`; writes out/FILE.
for output in $TESTS; do
    go test -c -vet=off -trimpath -buildvcs=false -tags "$TAGS" -ldflags "-s -w -buildid= $LDFLAGS" -o "/build/out/${output%%=*}" "${output#*=}"
done
