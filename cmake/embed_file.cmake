# cmake -DFILE=x.json -DNAME=x_json -DHEADER=server/x.h -DOUT=x_json.c -P embed_file.cmake: one file as
# `const unsigned char NAME[]` and `const size_t NAME_bytes`, which HEADER declares.
file(READ ${FILE} hex HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
file(WRITE ${OUT} "#include \"${HEADER}\"\n\nconst unsigned char ${NAME}[] = {${bytes}};\nconst size_t ${NAME}_bytes = sizeof ${NAME};\n")
