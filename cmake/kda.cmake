# Helpers of the build. One library a folder: kda_library(base DEPENDS ...) gives the target kda_base.

add_library(kda_options INTERFACE)
target_compile_options(kda_options INTERFACE -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Wnon-virtual-dtor
                                             -Wold-style-cast -ffp-contract=off)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(kda_options INTERFACE -Wno-restrict)  # g++ 12 sees overlap in std::string where there is none
endif()
if(KDA_WARNINGS_AS_ERRORS)
  target_compile_options(kda_options INTERFACE -Werror)
endif()
if(KDA_SANITIZE)
  target_compile_options(kda_options INTERFACE -fsanitize=${KDA_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")  # takes instrumented code of std::regex for uses of uninitialised variables
    target_compile_options(kda_options INTERFACE -Wno-maybe-uninitialized)
  endif()
  target_link_options(kda_options INTERFACE -fsanitize=${KDA_SANITIZE})
endif()
target_include_directories(kda_options INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src>)

function(kda_library name)
  cmake_parse_arguments(ARG "" "" "DEPENDS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS *.cpp)
  if(sources)
    add_library(kda_${name} STATIC ${sources})
    target_link_libraries(kda_${name} PUBLIC kda_options ${ARG_DEPENDS})
  else()
    add_library(kda_${name} INTERFACE)
    target_link_libraries(kda_${name} INTERFACE kda_options ${ARG_DEPENDS})
  endif()
endfunction()
if(KDA_BUILD_FUZZERS)
  target_compile_options(kda_options INTERFACE -fsanitize=fuzzer-no-link)
endif()

# When cross compiling there is no fmt library of the target's architecture; its headers are enough.
if(CMAKE_CROSSCOMPILING)
  set(KDA_FMT fmt::fmt-header-only)
else()
  set(KDA_FMT fmt::fmt)
endif()
