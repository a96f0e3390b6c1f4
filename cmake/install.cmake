# What `cmake --install` puts in place: the program, one static library of everything under it, its headers, a pkg-config file.

set(folders base quant formats arch weights convert tokenizer kernels ops state layers model sampler chat engine measure)
foreach(folder ${folders})
  list(APPEND objects $<TARGET_OBJECTS:kda_${folder}>)
endforeach()
add_library(kda_static STATIC ${objects})
set_target_properties(kda_static PROPERTIES OUTPUT_NAME kda LINKER_LANGUAGE CXX)

install(TARGETS kda_static)
foreach(folder ${folders})
  install(DIRECTORY src/${folder} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/kda FILES_MATCHING PATTERN "*.h" PATTERN "scalar" EXCLUDE PATTERN "avx2" EXCLUDE PATTERN "avx512" EXCLUDE)
endforeach()
configure_file(cmake/kda.pc.in kda.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/kda.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(FILES LICENSE README.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
