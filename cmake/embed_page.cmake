# cmake -DFOLDER=web -DOUT=page_files.c -P embed_page.cmake: the files of FOLDER as a C table (src/server/page.h), the same
# bytes for the same files.
file(GLOB names RELATIVE ${FOLDER} ${FOLDER}/*)
list(SORT names)
set(arrays "")
set(rows "")
set(count 0)
foreach(name IN LISTS names)
  file(READ ${FOLDER}/${name} hex HEX)
  file(SHA256 ${FOLDER}/${name} hash)
  string(SUBSTRING ${hash} 0 32 hash)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
  string(APPEND arrays "static const unsigned char file_${count}[] = {${bytes}};\n")
  string(APPEND rows "    {\"${name}\", \"\\\"${hash}\\\"\", file_${count}, sizeof file_${count}},\n")
  math(EXPR count "${count} + 1")
endforeach()
file(WRITE ${OUT}
     "#include \"server/page.h\"\n\n${arrays}\nconst struct page_file page_files[] = {\n${rows}};\nconst int page_n_files = ${count};\n")
